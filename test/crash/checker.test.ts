import { expect, test } from 'vitest'

/** The judge is judged: each of these histories breaks one promise. */
interface Record {
  at: number
  pid: number
  kind: 'begin' | 'end' | 'settled' | 'lost'
  no?: number
  id: number
  key?: string
  outcome?: string
  settlement?: string
}
type Judge = (history: unknown[], facts: object) => string[]

const { judge } = (await import(`./support/${'checker'}.js`)) as { judge: Judge }

const publication = (id: number, at = id) => ({ id, key: 'k', beganAt: at * 10, ackedAt: at * 10 + 5 })
const facts = (...ids: number[]) => ({ published: ids.map((id) => publication(id)), subscriptions: ['s'] })

/** An attempt that goes well. */
function attempt(id: number, from: number, { pid = 1, until = from + 10 } = {}): Record[] {
  return [
    { at: from, pid, kind: 'begin', no: from, id, key: 'k' },
    { at: until, pid, kind: 'end', no: from, id, outcome: 'ok' },
    { at: until + 1, pid, kind: 'settled', id, settlement: 'complete' },
  ]
}

function verdict(records: Record[], more: object): string[] {
  const history = records.map((record) => ({ ...record, subscription: 's' })).sort((a, b) => a.at - b.at)
  return judge(history, more).map((violation) => violation.split(':')[0] as string)
}

test('a good history is found good', () => {
  expect(verdict([...attempt(1, 100), ...attempt(2, 200)], facts(1, 2))).toEqual([])
})

test.each<[promise: string, records: Record[], facts: object]>([
  ['lost', attempt(1, 100), facts(1, 2)],
  ['phantom', [...attempt(1, 100), ...attempt(2, 200)], facts(1)],
  ['twice at once', [...attempt(1, 100).slice(0, 2), ...attempt(1, 105, { pid: 2 })], facts(1)],
  ['again', [...attempt(1, 100), ...attempt(1, 200, { pid: 2 }).slice(0, 2)], facts(1)],
  ['counted twice', [...attempt(1, 100), ...attempt(1, 102, { pid: 2, until: 110 })], facts(1)],
  ['unanswered', attempt(1, 100).slice(0, 2), facts(1)],
  ['out of turn', [...attempt(2, 100), ...attempt(1, 200)], facts(1, 2)],
  ['too early', [...attempt(1, 100), ...attempt(2, 105)], facts(1, 2)],
  [
    'not the head',
    [
      { at: 100, pid: 1, kind: 'begin', no: 1, id: 1, key: 'k' },
      { at: 110, pid: 1, kind: 'end', no: 1, id: 1, outcome: 'fail' },
      { at: 111, pid: 1, kind: 'settled', id: 1, settlement: 'retry' },
      ...attempt(2, 120),
      ...attempt(1, 140),
    ],
    facts(1, 2),
  ],
])('it notices: %s', (promise, records, more) => {
  expect(verdict(records, more)).toContain(promise)
})

test('a worker that was killed or frozen may be overtaken, but not before', () => {
  const unfinished = attempt(1, 100).slice(0, 1)
  const rerun = attempt(1, 200, { pid: 2 })
  expect(verdict([...unfinished, ...rerun], { ...facts(1), deaths: [{ pid: 1, at: 150 }] })).toEqual([])
  expect(verdict([...unfinished, ...rerun], { ...facts(1), deaths: [{ pid: 1, at: 250 }] })).toContain(
    'twice at once',
  )
  expect(verdict([...unfinished, ...rerun], { ...facts(1), freezes: [{ pid: 1, from: 150 }] })).toEqual([])
})
