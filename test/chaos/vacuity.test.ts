import { expect, test } from 'vitest'

interface Excuse {
  readonly places: readonly string[]
  readonly faults: readonly string[]
  readonly reason: string
}
type Summary = { counts: Record<string, number>; pairs: Record<string, number> }
type Missing = { never: string[]; apart: string[]; absent: string[] }

const load = (file: string) => import(new URL(file, import.meta.url).href)
const { leftOut } = (await load('./faults/left-out.js')) as { leftOut: Excuse[] }
const { faults } = (await load('./faults/index.js')) as { faults: Record<string, object> }
const { operations } = (await load('./operations/index.js')) as {
  operations: Record<string, { place: string }>
}
const { missing, summarize } = (await load('./vacuity.js')) as {
  missing: (summary: Summary, options: { secs: number }) => Missing
  summarize: (history: object[]) => Summary
}
const places = new Set(['puller', ...Object.values(operations).map(({ place }) => place)])

test('every pair that is left out is a pair that there is, with a reason', () => {
  for (const excuse of leftOut) {
    expect(excuse.reason).not.toBe('')
    for (const place of excuse.places) expect(places).toContain(place)
    for (const fault of excuse.faults) expect(Object.keys(faults)).toContain(fault)
  }
})

test('nothing that was done shows in what never happened', () => {
  const { never, apart } = missing({ counts: {}, pairs: {} }, { secs: 1_200 })
  const pairs = Object.fromEntries(apart.map((pair) => [pair, 1]))
  expect(missing({ counts: {}, pairs }, { secs: 1_200 }).apart).toEqual([])
  expect(never).toContain('publish.http never happened')
  expect(never).toContain('kills with a lease held: 0, expected 30 or more')
})

const harm = { fault: 'kill', role: 'server1', pid: 7 }
const call = (at: number, { type = 'ok', role = 'server1' } = {}) => [
  { at, kind: 'invoke', op: at, name: 'publish.http', pid: 1 },
  { at: at + 10, kind: 'answer', op: at, name: 'publish.http', type, roles: [role], pid: 1 },
]
const during = (records: object[]) =>
  summarize([
    { at: 0, kind: 'fault', ...harm, phase: 'begins' },
    ...records,
    { at: 5_000, kind: 'fault', ...harm, phase: 'ends' },
  ]).pairs

test('an operation meets a fault only where it is done, and only if it may have been done', () => {
  expect(during(call(1_000))).toEqual({ 'publish.http, kill': 1 })
  expect(during(call(1_000, { type: 'info' }))).toEqual({ 'publish.http, kill': 1 })
  expect(during(call(1_000, { type: 'fail' }))).toEqual({})
  expect(during(call(1_000, { role: 'server0' }))).toEqual({})
})
