/** Short histories for the tests of the checker, as the driver's processes would write them. */

export type Line = Readonly<Record<string, unknown>>
interface Answers {
  readonly deliveries: readonly Line[]
  readonly events: readonly Line[]
  readonly letters: readonly Line[]
  readonly queues: readonly Line[]
  readonly ledger: readonly Line[]
  readonly stored?: readonly Line[]
  readonly left?: Readonly<Record<string, number>>
  readonly walks?: readonly Line[]
  readonly metrics?: readonly string[]
}
type Judge = (history: readonly Line[], answers: Answers) => readonly { rule: string; text: string }[]

const { judge } = (await import(new URL('./checker/index.js', import.meta.url).href)) as { judge: Judge }

const nothing: Answers = { deliveries: [], events: [], letters: [], queues: [], ledger: [] }
export const worker = { pid: 7 }
export const other = { pid: 8 }

export function published(op: number, at: number, events: readonly Line[], fields: Line = {}): Line[] {
  const answers = events.map(({ id }) => ({ id }))
  const plain = events.map(({ id, ...event }) => ({ type: 'plain.x', ...event }))
  return [
    { at, kind: 'invoke', op, name: 'publish.many', events: plain, ...fields },
    { at: at + 10, kind: 'answer', op, name: 'publish.many', type: 'ok', answers },
  ]
}

export function attempted(
  { pid }: { pid: number },
  no: number,
  [from, to]: [number, number],
  event: Line,
  outcome = 'ok',
) {
  const what = { pid, no, s: 'plain', ...event }
  return [
    { at: from, kind: 'begin', attempt: 1, ...what },
    { at: to, kind: 'end', outcome, ...what },
  ]
}

/** Unless said otherwise, what was begun was delivered in the end. */
export const rules = (history: readonly Line[], answers: Partial<Answers> = {}) => {
  const begun = history.filter(({ kind }) => kind === 'begin')
  const deliveries = begun.map(({ id, s }) => ({ ...delivered(Number(id)), subscriber: s }))
  return [...new Set(judge(history, { ...nothing, deliveries, ...answers }).map(({ rule }) => rule))]
}
export const delivered = (id: number, status = 'delivered') => ({
  ...{ id: `d${id}`, event_id: id, subscriber: 'plain', status },
})

export const operated = (op: number, [from, to]: [number, number], name: string, fields: Line = {}) => [
  { at: from, kind: 'invoke', op, name, ...fields },
  { at: to, kind: 'answer', op, name, type: 'ok' },
]
