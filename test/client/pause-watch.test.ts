import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { PosthornHttpError } from '../../src/client/http-error.ts'
import { watchForPause } from '../../src/client/pause-watch.ts'
import type { LeasedDelivery } from '../../src/domain/delivery.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const deliveries = [1, 2, 3].map((attempt) => ({ attempt }) as LeasedDelivery)

function watch(isHeld: (delivery: LeasedDelivery) => Promise<boolean | undefined>) {
  const seen = { unbegun: deliveries as readonly LeasedDelivery[], asked: 0, held: 0, troubles: 0 }
  const one = watchForPause({
    unbegun: () => seen.unbegun,
    isHeld(delivery) {
      seen.asked++
      return isHeld(delivery)
    },
    held: () => void seen.held++,
    trouble: () => void seen.troubles++,
  })
  return { seen, stop: () => one.stop() }
}

test('a worker asks only while it has something in hand that has not begun', async () => {
  const { seen, stop } = watch(async () => false)
  seen.unbegun = []
  await vi.advanceTimersByTimeAsync(60_000)
  expect(seen.asked).toBe(0)
  seen.unbegun = deliveries
  await vi.advanceTimersByTimeAsync(6_000)
  expect(seen).toMatchObject({ asked: 10, held: 0 })
  stop()
  await vi.advanceTimersByTimeAsync(6_000)
  expect(seen.asked).toBe(10)
})

test('it asks by another delivery where one is no longer its own, and not for ever', async () => {
  const { seen } = watch(async (delivery) => (delivery === deliveries[2] ? undefined : true))
  await vi.advanceTimersByTimeAsync(6_000)
  expect(seen.held).toBeGreaterThan(0)
  const { seen: lost } = watch(async () => undefined)
  await vi.advanceTimersByTimeAsync(600)
  expect(lost).toMatchObject({ asked: 3, held: 0, troubles: 0 })
})

test('a server that asks for patience gets it', async () => {
  const busy = new PosthornHttpError({
    status: 429,
    code: 'RATE_LIMITED',
    message: 'busy',
    retryAfterMs: 5_000,
  })
  const { seen } = watch(() => Promise.reject(busy))
  await vi.advanceTimersByTimeAsync(5_000)
  expect(seen).toMatchObject({ asked: 1, held: 0, troubles: 1 })
  await vi.advanceTimersByTimeAsync(1_200)
  expect(seen.asked).toBe(2)
})
