import type { StoredEvent } from './stored-event.ts'

/** Deliveries of one subscription that were leased together and are fenced by one token. */
export interface LeasedRun {
  readonly id: number
  readonly subscription: number
  readonly token: number
  /** The key of the lane, which a subscription may take from the payload; null: the deliveries are in no lane. */
  readonly laneKey: string | null
  /** The last worker vanished with this run, so the run is leased alone: another crash then has one cause. */
  readonly suspect: boolean
  readonly leasedUntil: Date
  /** By the database's clock: from then on no delivery may begin. Null: they do not expire, or that is not known here. */
  readonly expiresAtMs?: number | null
  /** In a lane, deliveries are attempted one after the other in this order. */
  readonly deliveries: LeasedDelivery[]
}

export interface LeasedDelivery {
  /** The run that the delivery is leased with. It changes when the delivery gets its own run to be settled in a transaction. */
  run: LeasedRun
  readonly event: StoredEvent
  /** The number of the attempt; the first attempt is 1. */
  readonly attempt: number
  /** Failures before this attempt. */
  readonly failures: number
}
