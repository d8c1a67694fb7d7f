import { expect, test } from 'vitest'

type Line = Readonly<Record<string, unknown>>
interface Times {
  readonly heardAt: number
  readonly promotedAt: number
  readonly answers: { readonly events: readonly Line[] }
}
const { withoutLostAnswers, judgeFailover } = (await import(
  new URL('./failover-rules.js', import.meta.url).href
)) as {
  withoutLostAnswers: (history: readonly Line[], times: Times) => readonly Line[]
  judgeFailover: (history: readonly Line[], times: Times) => readonly { rule: string }[]
}

const times = { heardAt: 100, promotedAt: 200 }
const answer = { kind: 'answer', op: 1, type: 'ok', at: 110, answers: [{ id: 7 }] }
const invoke = { kind: 'invoke', op: 1, at: 105 }
const begin = { kind: 'begin', s: 'pulled', id: 7, u: 1, at: 120 }

test('an event that the standby lacks was not acknowledged, and its attempt is nobody’s', () => {
  const kept = withoutLostAnswers([invoke, answer, begin], { ...times, answers: { events: [] } })
  expect(kept).toEqual([invoke, { kind: 'answer', op: 1, type: 'info', at: 110 }])
})

test('an event that the standby has keeps its attempt', () => {
  const kept = withoutLostAnswers([invoke, answer, begin], { ...times, answers: { events: [{ id: 7 }] } })
  expect(kept).toContainEqual(begin)
})

test('what was acknowledged before the standby heard the last counts', () => {
  const early = { ...answer, at: 90 }
  const kept = withoutLostAnswers([invoke, early], { ...times, answers: { events: [] } })
  expect(kept).toContainEqual(early)
})

test('a lease that the standby may lack holds nothing', () => {
  const leased = { kind: 'leased', s: 'pulled', at: 110, events: [{ id: 7, token: 'a' }] }
  const early = { ...leased, at: 90 }
  expect(withoutLostAnswers([early, leased], { ...times, answers: { events: [{ id: 7 }] } })).toEqual([early])
})

test('what a memory queue settles is told by its own process, whatever becomes of the server', () => {
  const settled = { kind: 'settled', s: 'memory', id: 7, at: 110, settlement: 'complete' }
  expect(withoutLostAnswers([settled], { ...times, answers: { events: [] } })).toEqual([settled])
})

test('a number of a lane that the old primary gave is not given to another event by the new one', () => {
  const sent = (id: number, at: number, epoch: number) => ({
    ...{ kind: 'begin', s: 'hook', id, u: id, at, pid: 7, no: id, key: 'k', epoch, sequence: 3 },
  })
  const judged = (epoch: number) =>
    judgeFailover([sent(7, 110, 5), sent(8, 300, epoch)], { ...times, answers: { events: [{ id: 8 }] } })
  expect(judged(5).map(({ rule }) => rule)).toEqual(['number twice'])
  expect(judged(6)).toEqual([])
})
