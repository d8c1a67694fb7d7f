import type { StoredEvent } from './stored-event.ts'

/** Deliveries of one subscription that were leased together and are fenced by one token. */
export interface LeasedRun {
  readonly id: number
  readonly subscription: number
  readonly token: number
  /** What its deliveries are ordered by, which their events need not tell; null: they are in no lane. */
  readonly laneKey: string | null
  /** Its last worker vanished with it: run alone, so that a crash blames nobody else. */
  readonly suspect: boolean
  readonly leasedUntil: Date
  /** By the database's clock: from then on none of its deliveries may begin. Null: they do not expire, or nobody here knows. */
  readonly expiresAtMs?: number | null
  /** In a lane these are attempted one after the other, in this order. */
  readonly deliveries: LeasedDelivery[]
}

export interface LeasedDelivery {
  /** The run it is leased with; another one after it was taken out to be settled in a transaction. */
  run: LeasedRun
  readonly event: StoredEvent
  /** The number of the attempt that the lease allows, from 1. */
  readonly attempt: number
  /** Failures so far. */
  readonly failures: number
}
