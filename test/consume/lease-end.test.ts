import { afterEach, expect, test, vi } from 'vitest'
import type { LeaseAnswer } from '../../src/consume/source.ts'
import { leasedRun, openRunner, shareOf } from '../support/runner.ts'
import { createSignal, eventually } from '../support/signal.ts'

afterEach(() => {
  vi.restoreAllMocks()
})

/** Moves the monotonic clock, as for a process that was stopped meanwhile. */
function passTime(ms: number): void {
  const now = performance.now.bind(performance)
  vi.spyOn(performance, 'now').mockImplementation(() => now() + ms)
}

/** Gives out each answer once. */
function answering(...answers: (() => Promise<LeaseAnswer>)[]) {
  return async () => (await answers.shift()?.()) ?? { runs: [], again: false }
}

test('the rest of a lane does not begin after its lease has ended, also if nobody has looked meanwhile', async () => {
  const lane = leasedRun(1)
  lane.deliveries.push(...leasedRun(2).deliveries)
  const first = createSignal()
  const settled = createSignal()
  const begun: number[] = []
  const runner = openRunner({
    lease: answering(async () => ({ runs: [lane], again: false })),
    // The leases are renewed on a timer, which does not fire while the process is stopped.
    heartbeat: () => new Promise(() => undefined),
    settled: () => settled.give(),
  })
  const share = shareOf(1, 'handler', ({ id }) => {
    begun.push(id)
    return first.given
  })
  runner.add(share)
  runner.start()
  await eventually('the first has begun', () => begun.length === 1)
  passTime(share.subscription.leaseMs)
  first.give()
  await settled.given
  await new Promise(setImmediate)
  expect(begun).toEqual([1])
})

test('an attempt whose lease could not be renewed is known until its settlement is stored', async () => {
  const begun = createSignal()
  const stored = createSignal()
  let lostAndFailed = false
  const settled: string[] = []
  const runner = openRunner({
    lease: answering(async () => ({ runs: [leasedRun(1, { token: 77 })], again: false })),
    heartbeat: async () => Promise.reject(new Error('the database is away')),
    settle: async (settlements) => {
      lostAndFailed = true
      await stored.given
      return settlements.map(() => 'settled')
    },
    settled: ({ settlement }) => void settled.push(settlement.kind),
  })
  const share = shareOf(1, 'handler', (_, { signal }) => {
    begun.give()
    return new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason)))
  })
  runner.add(share)
  runner.start()
  await begun.given
  passTime(share.subscription.leaseMs)
  await eventually('it failed, as its lease was lost', () => lostAndFailed)
  expect(runner.knownLeases()({ runId: 1, token: 77 })).toBe(true)
  stored.give()
  await eventually('it is settled', () => settled.length === 1)
  expect(settled).toEqual(['retry'])
  expect(runner.knownLeases()({ runId: 1, token: 77 })).toBe(false)
})

test('a suspect does not begin if its lease has ended by the time that it is marked', async () => {
  const asked = createSignal()
  const marked = createSignal()
  const settled: string[] = []
  let begun = 0
  const runner = openRunner({
    lease: answering(async () => ({ runs: [leasedRun(1, { suspect: true })], again: false })),
    heartbeat: async (beats) => {
      asked.give()
      await marked.given
      return beats.map(({ run }) => ({ run, renewed: true, cancelled: [] }))
    },
    settled: ({ settlement }) => void settled.push(settlement.kind),
  })
  const share = shareOf(1, 'handler', () => begun++)
  runner.add(share)
  runner.start()
  await asked.given
  passTime(share.subscription.leaseMs)
  marked.give()
  await eventually('it is handed back', () => settled.length === 1)
  expect([settled, begun]).toEqual([['release'], 0])
})

test('what was leased for a short time does not begin later, though leases have been made longer since', async () => {
  const leased = createSignal()
  const asked = createSignal()
  const lost = createSignal()
  let begun = 0
  const share = shareOf(1, 'handler', () => begun++)
  const short = { ...share.subscription, leaseMs: 1_000 }
  share.refresh(short)
  const runner = openRunner({
    lease: answering(async () => {
      asked.give()
      await leased.given
      return { runs: [leasedRun(1)], again: false }
    }),
    lost: () => lost.give(),
  })
  // Since the lease was asked for, time has passed.
  await new Promise(setImmediate)
  runner.add(share)
  runner.start()
  await asked.given
  await new Promise(setImmediate)
  runner.refresh({ ...short, leaseMs: 60_000 })
  passTime(1_000)
  leased.give()
  await lost.given
  expect(begun).toBe(0)
})
