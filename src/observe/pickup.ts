import type { LeasedRun } from '../domain/delivery.ts'
import type { Metrics } from './metrics.ts'

/**
 * Notes how long a run had been due when it was leased, for `leaseMs`. Both times are the database's. Its first
 * delivery is the oldest, and speaks for all: thousands of deliveries a second are leased in few runs.
 */
export function observePickup(
  metrics: Metrics,
  { leasedUntil, deliveries }: LeasedRun,
  leaseMs: number,
): void {
  const first = deliveries[0]
  // A retry was due when its backoff was over, which nobody remembers.
  if (first === undefined || first.attempt > 1) return
  const { createdAt, runAt } = first.event
  const dueAt = Math.max(createdAt.getTime(), runAt?.getTime() ?? 0)
  metrics.pickupSeconds.observe(Math.max(0, leasedUntil.getTime() - leaseMs - dueAt) / 1000)
}
