import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  backoffMs,
  checkRetryPolicy,
  defaultRetry,
  type RetryPolicy,
  scheduleRetry,
} from '../../src/domain/retry.ts'

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
const failures = fc.integer({ min: 1, max: 10_000 })
const delay = fc.integer({ min: 1, max: 86_400_000 })
const policy: fc.Arbitrary<RetryPolicy> = fc.oneof(
  fc.record({
    kind: fc.constant('fixed' as const),
    delayMs: delay,
    failuresMax: fc.integer({ min: 1, max: 1000 }),
  }),
  fc.array(fc.nat(86_400_000)).map(scheduleRetry),
  fc
    .record({
      baseMs: delay,
      factor: fc.double({ min: 1, max: 100, noNaN: true }),
      moreMs: delay,
      jitter: random,
    })
    .map(({ baseMs, factor, moreMs, jitter }) => ({
      kind: 'exponential' as const,
      baseMs,
      factor,
      maxMs: baseMs + moreMs,
      jitter,
      failuresMax: 10,
    })),
)

test('every delay is a whole, finite, positive number of milliseconds', () => {
  fc.assert(
    fc.property(policy, failures, random, (policy, failures, random) => {
      const delayMs = backoffMs(checkRetryPolicy(policy), failures, random)
      expect(Number.isSafeInteger(delayMs)).toBe(true)
      expect(delayMs).toBeGreaterThanOrEqual(1)
    }),
    { numRuns: 1000 },
  )
})

test('handlers wait 1 s, 2 s, 4 s … up to 10 minutes, spread by a fifth', () => {
  const middle = (failures: number) => backoffMs(defaultRetry.handler, failures, 0.5)
  expect([1, 2, 3, 4].map(middle)).toEqual([1000, 2000, 4000, 8000])
  expect([10, 11, 10_000].map(middle)).toEqual([512_000, 600_000, 600_000])
  expect(backoffMs(defaultRetry.handler, 1, 0)).toBe(800)
  expect(backoffMs(defaultRetry.handler, 1, 0.999999)).toBe(1200)
  expect(backoffMs(defaultRetry.handler, 100, 0)).toBe(480_000)
  expect(backoffMs(defaultRetry.handler, 100, 0.999999)).toBe(600_000)
  expect(defaultRetry.handler.failuresMax).toBe(10)
})

test('pull work waits five minutes, three failures are final', () => {
  expect([1, 2, 3].map((failures) => backoffMs(defaultRetry.pull, failures, 0.9))).toEqual([
    300_000, 300_000, 300_000,
  ])
  expect(defaultRetry.pull.failuresMax).toBe(3)
})

test('webhooks wait 5, 30, 300 seconds, so four failures are final', () => {
  expect([1, 2, 3, 4].map((n) => backoffMs(defaultRetry.webhook, n, 0))).toEqual([
    5000, 30_000, 300_000, 300_000,
  ])
  expect(defaultRetry.webhook.failuresMax).toBe(4)
})

test('a schedule never fires early, and at most a tenth late', () => {
  fc.assert(
    fc.property(fc.array(delay, { minLength: 1 }), failures, random, (delaysMs, failures, random) => {
      const planned = delaysMs[Math.min(failures, delaysMs.length) - 1] as number
      const delayMs = backoffMs(scheduleRetry(delaysMs), failures, random)
      expect(delayMs).toBeGreaterThanOrEqual(planned)
      expect(delayMs).toBeLessThanOrEqual(Math.ceil(planned * 1.1))
    }),
  )
})

describe('a bad policy is refused', () => {
  const { handler, pull, webhook } = defaultRetry
  test.each<[string, object]>([
    ['an unknown kind', { ...pull, kind: 'linear' }],
    ['no failures', { ...pull, failuresMax: 0 }],
    ['a part of a failure', { ...pull, failuresMax: 1.5 }],
    ['too many failures', { ...pull, failuresMax: 1001 }],
    ['a negative delay', { ...pull, delayMs: -1 }],
    ['an endless delay', { ...pull, delayMs: Number.POSITIVE_INFINITY }],
    ['no base', { ...handler, baseMs: 0 }],
    ['a cap below the base', { ...handler, maxMs: 999 }],
    ['a factor that shrinks', { ...handler, factor: 0.5 }],
    ['a factor that is no number', { ...handler, factor: Number.NaN }],
    ['a jitter over 1', { ...handler, jitter: 1.1 }],
    ['a schedule with a hole', scheduleRetry([1, Number.NaN])],
    ['a schedule with another number of failures', { ...webhook, failuresMax: 3 }],
  ])('%s', (_, policy) => {
    expect(() => checkRetryPolicy(policy as RetryPolicy)).toThrow(
      expect.objectContaining({ code: 'BAD_OPTION' }),
    )
  })
  test('but the defaults are good', () => {
    for (const policy of [handler, pull, webhook]) expect(checkRetryPolicy(policy)).toBe(policy)
  })
})
