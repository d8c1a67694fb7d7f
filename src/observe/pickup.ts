import type { LeasedRun } from '../domain/delivery.ts'
import type { Metrics } from './metrics.ts'

/**
 * Records how long a run had been due when it was leased for `leaseMs`. Both times are the database's. Only the first
 * delivery, which is the oldest, is measured: thousands of deliveries a second are leased in few runs.
 */
export function observePickup(
  metrics: Metrics,
  { leasedUntil, deliveries }: LeasedRun,
  leaseMs: number,
): void {
  const first = deliveries[0]
  // A retry was due when its backoff ended, and that time is not kept.
  if (first === undefined || first.attempt > 1) return
  const { createdAt, runAt } = first.event
  const dueAt = Math.max(createdAt.getTime(), runAt?.getTime() ?? 0)
  metrics.pickupSeconds.observe(Math.max(0, leasedUntil.getTime() - leaseMs - dueAt) / 1000)
}
