import { backoffMs, type RetryPolicy } from './retry.ts'

export { describeError } from './describe-error.ts'

/** What happened in an attempt. */
export type Outcome =
  | { readonly kind: 'succeeded' }
  | {
      readonly kind: 'failed'
      readonly reason: string
      /** No later attempt can do better. */
      readonly permanent?: boolean
      /** The other side asked for at least this much patience. */
      readonly retryAfterMs?: number
      /** Not the delivery's fault (its endpoint cannot be reached at all), so it costs nothing. */
      readonly uncounted?: boolean
    }
  | { readonly kind: 'snoozed'; readonly afterMs: number }
  | { readonly kind: 'buried'; readonly reason: string }
  | { readonly kind: 'lease_expired' }

/** What becomes of the delivery. `failures` is the new count. */
export type Settlement =
  | { readonly kind: 'complete' }
  | { readonly kind: 'retry'; readonly afterMs: number; readonly reason: string; readonly failures: number }
  | { readonly kind: 'snooze'; readonly afterMs: number }
  | { readonly kind: 'bury'; readonly reason: string; readonly failures: number }

export interface AttemptedDelivery {
  readonly failures: number
  readonly retry: RetryPolicy
  /** The event's own, which counts instead of the policy's. */
  readonly maxRetries: number | null
}

export const retryAfterMsMax = 24 * 60 * 60 * 1000

/** Retry or bury is decided here, for handlers, pull workers, webhooks and crashes alike. */
export function decideSettlement(delivery: AttemptedDelivery, outcome: Outcome, random: number): Settlement {
  const { failures } = delivery
  switch (outcome.kind) {
    case 'succeeded':
      return { kind: 'complete' }
    case 'snoozed':
      return { kind: 'snooze', afterMs: outcome.afterMs }
    case 'buried':
      return { kind: 'bury', reason: outcome.reason, failures }
    case 'lease_expired':
      // Nobody asked for patience: backoff is for reported failures.
      return countFailure(delivery, { reason: 'the lease expired', afterMs: 0 })
    case 'failed': {
      const { reason, permanent, uncounted } = outcome
      if (permanent) return { kind: 'bury', reason, failures: uncounted ? failures : failures + 1 }
      const afterMs = waitMs(delivery, outcome, random)
      return uncounted
        ? { kind: 'retry', afterMs, reason, failures }
        : countFailure(delivery, { reason, afterMs })
    }
  }
}

function countFailure(delivery: AttemptedDelivery, retry: { reason: string; afterMs: number }): Settlement {
  const failures = delivery.failures + 1
  const exhausted = failures >= (delivery.maxRetries ?? delivery.retry.failuresMax)
  return exhausted ? { kind: 'bury', reason: retry.reason, failures } : { kind: 'retry', ...retry, failures }
}

/** What costs nothing follows no schedule: it is tried again soon, until somebody sees that it is of no use. */
const uncountedMs = 5_000

/** Not before the policy's delay, and not before what the other side asked for, within a day. */
function waitMs(
  { retry, failures }: AttemptedDelivery,
  { retryAfterMs = 0, uncounted }: { retryAfterMs?: number; uncounted?: boolean },
  random: number,
): number {
  const delayMs = uncounted
    ? Math.round(uncountedMs * (1 + random / 10))
    : backoffMs(retry, failures + 1, random)
  return Math.max(delayMs, Math.min(retryAfterMs || 0, retryAfterMsMax))
}
