import { expect, test } from 'vitest'

type Line = Readonly<Record<string, unknown>>
type Violation = Readonly<{ rule: string; s?: string; id?: number }>
type Smallest = (run: { history: readonly Line[]; answers: object }, violation: Violation) => readonly Line[]

const { smallestHistory } = (await import(new URL('./smallest-history.js', import.meta.url).href)) as {
  smallestHistory: Smallest
}

const answers = { deliveries: [], events: [], letters: [], queues: [], ledger: [] }

/** One event that is published, begun and done. */
const event = (u: number): Line[] => {
  const what = { pid: 7, no: u, s: 'plain', u, id: 10 + u }
  return [
    { at: u * 100, kind: 'invoke', op: u, name: 'publish.library', events: [{ u, type: 'plain.x' }] },
    { at: u * 100 + 5, kind: 'answer', op: u, type: 'ok', answers: [{ id: 10 + u }] },
    { at: u * 100 + 10, kind: 'begin', ...what },
    { at: u * 100 + 20, kind: 'end', outcome: 'ok', ...what },
  ]
}

test('only what the violation needs is left of a history', () => {
  const again = { pid: 8, no: 1, s: 'plain', u: 5, id: 15 }
  const doubled = { at: 515, kind: 'begin', ...again }
  const faults = [
    { at: 3_000, kind: 'fault', fault: 'kill', pid: 9, phase: 'begins' },
    { at: 3_001, kind: 'fault', fault: 'kill', pid: 9, phase: 'ends' },
  ]
  const history = [1, 2, 3, 4, 5, 6, 7, 8].flatMap(event).concat(doubled, faults)
  history.sort((a, b) => Number(a.at) - Number(b.at))
  const left = smallestHistory({ history, answers }, { rule: 'overlap', s: 'plain', id: 15 })
  expect(left.map(({ kind, id }) => `${kind} ${id}`)).toEqual(['begin 15', 'begin 15', 'end 15'])
})

test('a history that does not break the rule stays as it is', () => {
  const history = event(1)
  expect(smallestHistory({ history, answers }, { rule: 'overlap', s: 'plain', id: 11 })).toBe(history)
})
