import { expect, test } from 'vitest'

/** The judge of webhooks is judged: each of these histories breaks one promise. */
type Judge = (history: unknown[], facts: object) => string[]

const { judgeLanes } = (await import(`./support/${'lane-judge'}.js`)) as { judgeLanes: Judge }

const published = [1, 2, 3].map((id) => ({ id, key: 'k' }))

interface Sent {
  /** Of the event, and its number in the lane. */
  n: number
  at?: number
  until?: number
  outcome?: string
  previous?: number
  skipped?: number[]
  id?: string
  sequence?: number
  verdict?: string
}

/** Requests to one lane, each over before the next comes unless it says otherwise. */
function history(...all: Sent[]): object[] {
  return all.flatMap((sent, place) => {
    const { n, at = (place + 1) * 100, until = at + 50, outcome = 'delivered', id = `id ${n}` } = sent
    const { previous = n - 1, skipped = [], sequence = n, verdict = 'next' } = sent
    const lane = { key: 'k', sequence, previous, skipped }
    const request = {
      at,
      kind: 'request',
      no: place,
      subscriber: 's',
      id,
      eventId: n,
      attempt: 1,
      lane,
      verdict,
    }
    return [request, { at: until, kind: 'answer', no: place, outcome }]
  })
}

function verdict(records: object[], facts: object = {}): string[] {
  const violations = judgeLanes(records, { published, subscribers: ['s'], ...facts })
  return [...new Set(violations.map((violation) => violation.split(':')[0] as string))]
}

const failed = 'failed'

test.each<[what: string, records: object[], facts?: object]>([
  ['in order', history({ n: 1 }, { n: 2 }, { n: 3 })],
  ['with a retry', history({ n: 1 }, { n: 2, outcome: failed }, { n: 2 }, { n: 3 })],
  ['with one that the sender closed', history({ n: 1 }, { n: 2, outcome: 'closed' }, { n: 2 }, { n: 3 })],
  [
    'with a skip that is declared',
    history({ n: 1 }, { n: 2, outcome: failed }, { n: 3, previous: 1, skipped: [2] }),
    { dead: new Set(['s 2']) },
  ],
  [
    'with a repeat after a lost lease',
    history({ n: 1 }, { n: 2 }, { n: 2 }, { n: 3 }),
    { expiries: [{ delivery: 's 2', at: 270 }] },
  ],
  [
    'with a repeat after an answer that came too late',
    history({ n: 1 }, { n: 2 }, { n: 2 }, { n: 3 }),
    { unheard: new Set(['s 2 1']) },
  ],
])('a lane is found good: %s', (_, records, facts) => {
  expect(verdict(records, facts)).toEqual([])
})

test.each<[promise: string, records: object[], facts?: object]>([
  ['out of order', history({ n: 1 }, { n: 3, previous: 1, skipped: [2] }, { n: 2 })],
  ['gap', history({ n: 1 }, { n: 3, previous: 1 })],
  ['gap', history({ n: 1 }, { n: 2, outcome: failed }, { n: 3, previous: 2 })],
  ['gap', history({ n: 1 }, { n: 2 }, { n: 3, previous: 1, skipped: [2] })],
  ['gap', history({ n: 1 }, { n: 2 }, { n: 3, previous: 1 })],
  ['gap', history({ n: 2, previous: 1 }, { n: 3 })],
  ['two in flight', history({ n: 1 }, { n: 2, until: 310 }, { n: 3 })],
  ['two in flight', history({ n: 1, until: 1_000 }, { n: 2 }, { n: 3 })],
  ['repeated', history({ n: 1 }, { n: 2 }, { n: 2 }, { n: 3 })],
  ['repeated', history({ n: 1 }, { n: 2 }, { n: 2 }, { n: 3 }), { expiries: [{ delivery: 's 2', at: 150 }] }],
  ['changed id', history({ n: 1 }, { n: 2, outcome: failed }, { n: 2, id: 'other' }, { n: 3 })],
  ['changed id', history({ n: 1 }, { n: 2, id: 'id 1' }, { n: 3 })],
  ['misnumbered', history({ n: 1 }, { n: 2, sequence: 3 }, { n: 3, sequence: 2 })],
  ['phantom', history({ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 })],
  ['lost', history({ n: 1 }, { n: 2 })],
  ['lost', history({ n: 1 }, { n: 2 }, { n: 3, outcome: failed })],
  ['verdict', history({ n: 1 }, { n: 2, verdict: 'gap' }, { n: 3 })],
  [
    'forged',
    [
      ...history({ n: 1 }, { n: 2 }, { n: 3 }),
      { at: 1, kind: 'forged', subscriber: 's', why: 'no signature' },
    ],
  ],
])('it notices: %s', (promise, records, facts) => {
  expect(verdict(records, facts)).toContain(promise)
})

test('one that never ended is in flight for ever', () => {
  const [request, ...rest] = history({ n: 1 }, { n: 1 }, { n: 2 }, { n: 3 })
  expect(verdict([request as object, ...rest.slice(1)])).toContain('two in flight')
})

test('what has no key may come at once, but each of it only once at a time', () => {
  const unkeyed = (...all: Sent[]) =>
    history(...all).map((record) => ('lane' in record ? { ...record, lane: null } : record))
  const facts = { published: [1, 2].map((id) => ({ id, key: null })) }
  expect(verdict(unkeyed({ n: 2, until: 500 }, { n: 1 }), facts)).toEqual([])
  expect(verdict(unkeyed({ n: 1, until: 500 }, { n: 1 }, { n: 2 }), facts)).toEqual(['two in flight'])
})
