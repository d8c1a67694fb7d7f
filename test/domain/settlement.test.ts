import { expect, test } from 'vitest'
import { defaultRetry, scheduleRetry } from '../../src/domain/retry.ts'
import {
  type AttemptedDelivery,
  decideSettlement,
  type Outcome,
  retryAfterMsMax,
} from '../../src/domain/settlement.ts'

const fresh: AttemptedDelivery = { failures: 0, retry: defaultRetry.pull, maxRetries: null }
const decide = (delivery: Partial<AttemptedDelivery>, outcome: Outcome, random = 0) =>
  decideSettlement({ ...fresh, ...delivery }, outcome, random)
const failed = { kind: 'failed', reason: 'boom' } as const

test('success completes, however often it failed before', () => {
  expect(decide({ failures: 99 }, { kind: 'succeeded' })).toEqual({ kind: 'complete' })
})

test('a failure is retried after the backoff, and the last one allowed buries', () => {
  expect(decide({}, failed)).toEqual({ kind: 'retry', afterMs: 300_000, reason: 'boom', failures: 1 })
  expect(decide({ failures: 1 }, failed)).toMatchObject({ kind: 'retry', failures: 2 })
  expect(decide({ failures: 2 }, failed)).toEqual({ kind: 'bury', reason: 'boom', failures: 3 })
  expect(decide({ failures: 7 }, failed)).toEqual({ kind: 'bury', reason: 'boom', failures: 8 })
})

test('the backoff is that of the new number of failures', () => {
  const retry = scheduleRetry([1000, 2000])
  expect(decide({ retry }, failed)).toMatchObject({ afterMs: 1000 })
  expect(decide({ retry, failures: 1 }, failed)).toMatchObject({ afterMs: 2000 })
  expect(decide({ retry, failures: 2 }, failed)).toMatchObject({ kind: 'bury' })
})

test("the event's own limit counts instead of the policy's, both ways", () => {
  expect(decide({ maxRetries: 1 }, failed)).toMatchObject({ kind: 'bury', failures: 1 })
  expect(decide({ maxRetries: 5, failures: 3 }, failed)).toMatchObject({ kind: 'retry', failures: 4 })
  expect(decide({ maxRetries: 5, failures: 4 }, failed)).toMatchObject({ kind: 'bury', failures: 5 })
})

test('a permanent failure buries at once', () => {
  expect(decide({}, { ...failed, permanent: true })).toEqual({ kind: 'bury', reason: 'boom', failures: 1 })
})

test('retry-after can only lengthen the wait, up to a day', () => {
  const after = (retryAfterMs: number) => decide({}, { ...failed, retryAfterMs })
  expect(after(400_000)).toMatchObject({ afterMs: 400_000 })
  expect(after(1)).toMatchObject({ afterMs: 300_000 })
  expect(after(Number.NaN)).toMatchObject({ afterMs: 300_000 })
  expect(after(Number.POSITIVE_INFINITY)).toMatchObject({ afterMs: retryAfterMsMax })
})

test('an uncounted failure is retried without end and costs nothing', () => {
  expect(decide({ failures: 2 }, { ...failed, uncounted: true })).toEqual({
    kind: 'retry',
    afterMs: 5_000,
    reason: 'boom',
    failures: 2,
  })
})

test('snoozing waits as asked and counts nothing', () => {
  expect(decide({ failures: 2 }, { kind: 'snoozed', afterMs: 5 })).toEqual({ kind: 'snooze', afterMs: 5 })
})

test('burying by choice needs no failure', () => {
  expect(decide({ failures: 1 }, { kind: 'buried', reason: 'no' })).toEqual({
    kind: 'bury',
    reason: 'no',
    failures: 1,
  })
})

test('an expired lease counts as a failure, is due at once, and buries when it was the last', () => {
  const reason = 'the lease expired'
  expect(decide({}, { kind: 'lease_expired' })).toEqual({ kind: 'retry', afterMs: 0, reason, failures: 1 })
  expect(decide({ failures: 2 }, { kind: 'lease_expired' })).toEqual({ kind: 'bury', reason, failures: 3 })
})
