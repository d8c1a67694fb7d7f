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
  /** What a memory queue of this process asks of the run; undefined: none has to do with it. */
  memory?: MemoryTerms
  /** In a lane, deliveries are attempted one after the other in this order. */
  readonly deliveries: LeasedDelivery[]
}

/** What a memory queue asks of its own runs, and of stored runs that may share a lane with them. */
export interface MemoryTerms {
  /** The run itself is in memory: its settlements wait for no statement. */
  readonly settlesInMemory: boolean
  /** Whether an attempt may begin at this moment of the monotonic clock, apart from what the lease says. */
  mayBegin(now: number): boolean
  /** Whether the run has to wait for older deliveries of its lane: the signal `runMayBegin` ends the wait. */
  holdsBack(): boolean
}

export interface LeasedDelivery {
  /** The run that the delivery is leased with. It changes when the delivery gets its own run to be settled in a transaction. */
  run: LeasedRun
  readonly event: StoredEvent
  /** The number of the attempt; the first attempt is 1. */
  readonly attempt: number
  /** Failures before this attempt. */
  readonly failures: number
  /** Its settlement may have to wait for something, and no other settlement may wait with it. */
  readonly settlesAlone?: boolean
}
