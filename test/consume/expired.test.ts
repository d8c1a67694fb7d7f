import { afterEach, expect, test, vi } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { leasedRun, openRunner, shareOf } from '../support/runner.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('expired_in_hand')

afterEach(() => {
  vi.restoreAllMocks()
})

/** Moves the monotonic clock. */
function passTime(ms: number): void {
  const now = performance.now.bind(performance)
  vi.spyOn(performance, 'now').mockImplementation(() => now() + ms)
}

test.each([
  ['of a lane', 'k'],
  ['without a lane', null],
])('what was leased in time, %s, does not begin once it has expired', async (_, orderingKey) => {
  const { hub, clock, drain } = await hubs.open()
  const seen: unknown[] = []
  const first = createSignal()
  hub.on('t', { name: 'n', concurrency: 1, leaseMs: 600_000 }, async ({ payload }) => {
    seen.push(payload)
    if (payload === 0) await first.given
  })
  await hub.start()
  const event = { type: 't', ...(orderingKey && { orderingKey }), expiresAt: new Date(Date.now() + 100_000) }
  const published = await hub.publishMany([0, 1, 2].map((payload) => ({ ...event, payload })))
  await eventually('the first has begun', () => seen.length === 1)
  await clock.advance(101_000)
  passTime(101_000)
  first.give()
  const statuses = async () => {
    while (await hub.sweep());
    return Promise.all(published.map(async ({ id }) => (await hub.event(id))?.progress.status))
  }
  await expect.poll(statuses).toEqual(['COMPLETED', 'EXPIRED', 'EXPIRED'])
  expect(seen).toEqual([0])
  const [delivery] = (await hub.event(published[1]?.id as number))?.deliveries ?? []
  expect(delivery).toMatchObject({ attempts: 0, failures: 0 })
  // Sent again it has no expiry any more.
  const { deadLetters } = await hub.deadLetters()
  await hub.redrive(deadLetters.map(({ id }) => id))
  hub.wake()
  await drain()
  expect(seen).toEqual([0, 1, 2])
})

test.each(['handler', 'webhook'] as const)(
  'what waits for a slot of a %s is handed back once it has expired',
  async (via) => {
    const never = createSignal()
    const begun: number[] = []
    const share = shareOf(1, via, ({ id }) => {
      begun.push(id)
      return never.given
    })
    const leasedAtMs = Date.now()
    const run = leasedRun(1, {
      laneKey: null,
      leasedUntil: new Date(leasedAtMs + share.subscription.leaseMs),
      expiresAtMs: leasedAtMs + 10_000,
    })
    for (let id = 2; id <= 12; id++) run.deliveries.push({ ...leasedRun(id).deliveries[0], run } as never)
    const settled: [number, string][] = []
    const runs = [run]
    const runner = openRunner({
      lease: async () => ({ runs: runs.splice(0), again: false }),
      settled: ({ delivery, settlement }) => void settled.push([delivery.event.id, settlement.kind]),
    })
    runner.add(share)
    runner.start()
    await eventually('all slots are taken', () => begun.length === 10)
    passTime(10_001)
    await eventually('the rest is handed back', () => settled.length === 2)
    expect(settled).toEqual([
      [11, 'release'],
      [12, 'release'],
    ])
    expect(runner.underWay).toBe(10)
    never.give()
  },
)
