import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'

/** A leased run as the runner holds it. Times without a unit are of the monotonic clock. */
export interface HeldRun {
  readonly run: LeasedRun
  readonly lane: boolean
  /** When the lease was asked for. */
  readonly leasedAt: number
  /** The same moment by the clock of the database. */
  readonly leasedAtMs: number
  /** The lease holds at least until then. */
  holdsUntil: number
  /** When to renew next. */
  renewAt: number
  /** Not to be renewed before this: the run is being settled, or the last renewal got no answer. */
  notBefore?: number
  /** Deliveries not yet begun, in order. */
  readonly waiting: LeasedDelivery[]
  /** Deliveries begun and not yet settled. */
  underWay: number
  /** Events that an operator has cancelled meanwhile. */
  cancelled: readonly number[]
  /** Set when the rest of the run is to be handed back as soon as its attempts under way have ended. */
  goesBack: boolean
}

/** A run that was asked for at this moment, with a lease of `leaseMs`. */
export function holdRun(run: LeasedRun, askedAt: number, leaseMs: number): HeldRun {
  return {
    run,
    lane: run.laneKey !== null,
    leasedAt: askedAt,
    leasedAtMs: run.leasedUntil.getTime() - leaseMs,
    holdsUntil: askedAt + leaseMs,
    renewAt: askedAt + leaseMs / 3,
    waiting: [...run.deliveries],
    underWay: 0,
    cancelled: [],
    goesBack: false,
  }
}

/** An operator has cancelled the delivery, or its time is over: it must not begin. */
export function isOver(held: HeldRun, { event }: LeasedDelivery, now: number): boolean {
  return hasExpired(held, now) || held.cancelled.includes(event.id)
}

export function hasExpired(held: HeldRun, now: number): boolean {
  const { expiresAtMs = null } = held.run
  return expiresAtMs !== null && expiresAtMs <= databaseNowMs(held, now)
}

/** The clock of the database as it was at the lease, and the time that has passed since. */
export function databaseNowMs({ leasedAtMs, leasedAt }: HeldRun, now: number): number {
  return leasedAtMs + now - leasedAt
}
