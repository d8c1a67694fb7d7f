import { backoffMs, type RetryPolicy } from './retry.ts'

/** How an attempt ended. */
export type Outcome =
  | { readonly kind: 'succeeded' }
  | {
      readonly kind: 'failed'
      readonly reason: string
      /** No retry can succeed. */
      readonly permanent?: boolean
      /** The receiver asked to wait at least this long. */
      readonly retryAfterMs?: number
      /** The failure does not count, since the delivery did not cause it: its endpoint cannot be reached at all. */
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
  /** The limit of the event, which counts instead of the limit of the policy. */
  readonly maxRetries: number | null
}

export const retryAfterMsMax = 24 * 60 * 60 * 1000

/** Decides between retry and burial, for handlers, pull workers, webhooks and crashes alike. */
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
      // Retried at once: backoff is for reported failures.
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

/** A failure that does not count follows no schedule: the delivery is retried soon, until the breaker suspends the endpoint. */
const uncountedMs = 5_000

/** The delay of the policy, or the wait that the receiver asked for if that is longer; at most a day. */
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
