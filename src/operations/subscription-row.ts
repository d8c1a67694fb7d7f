import type { Subscription, SubscriptionStatus } from '../domain/subscription.ts'

export const subscriptionColumns = `s.no, s.id, s.name, s.via, s.status, s.types, s.tags, s.filter, s.key_pointer, s.on_exhausted, s.retry,
    s.lease_ms, s.timeout_ms, s.max_concurrency, s.rate_per_second, s.key_concurrency, s.ramp`

export type SubscriptionRow = [
  no: number,
  id: string,
  name: string,
  via: Subscription['via'],
  status: SubscriptionStatus,
  types: string[],
  tags: string[] | null,
  filter: Subscription['filter'],
  orderingKey: string | null,
  onExhausted: Subscription['onExhausted'],
  retry: Subscription['retry'],
  leaseMs: number,
  timeoutMs: number | null,
  maxConcurrency: number | null,
  ratePerSecond: number | null,
  keyConcurrency: number | null,
  ramp: number | null,
]

export function subscriptionFromRow(row: SubscriptionRow): Subscription {
  const [no, id, name, via, status, types, tags, filter, orderingKey, onExhausted, ...rest] = row
  const [retry, leaseMs, timeoutMs, ...limits] = rest
  const [maxConcurrency, ratePerSecond, keyConcurrency, ramp] = limits
  return {
    ...{
      no,
      id,
      name,
      via,
      status,
      types,
      tags,
      filter,
      orderingKey,
      onExhausted,
      retry,
      leaseMs,
      timeoutMs,
    },
    ...{ maxConcurrency, ratePerSecond, keyConcurrency, ramp },
  }
}
