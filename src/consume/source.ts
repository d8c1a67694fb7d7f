import type { CallerTransaction } from '../domain/caller-transaction.ts'
import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import type { ExchangeRecord } from '../domain/exchange-record.ts'
import type { Settlement } from '../domain/settlement.ts'

/** Where leases come from and where settlements go: the hub, or the hub over HTTP. */
export interface Source {
  /** At most what is wanted, oldest first. */
  lease(wants: readonly Want[]): Promise<LeaseAnswer>
  /** Whether a lease would find anything: cheaper than a lease. */
  peek(subscriptions: readonly number[]): Promise<boolean>
  /** Resolves once all of these are durable, or are known to have come too late. Answers in their order. */
  settle(settlements: readonly SettleDelivery[]): Promise<readonly SettleAnswer[]>
  heartbeat(beats: readonly Beat[]): Promise<readonly HeldLease[]>
  /** Hands whole runs back; nothing left in them has begun. */
  release(runs: readonly LeasedRun[]): Promise<void>
  /**
   * Hands back deliveries that have not begun, while others of their runs go on. A source that can only hand back whole
   * runs does nothing: then these go back when the rest of their run has ended.
   */
  releaseSome(deliveries: readonly LeasedDelivery[]): Promise<void>
  /** Takes a delivery out of its run into one of its own; undefined if the lease is lost. */
  isolate(delivery: LeasedDelivery): Promise<Isolated | undefined>
  /**
   * Settles as completed inside the caller's transaction; false if the lease is lost. Throws STALE_SNAPSHOT if the
   * transaction cannot see that.
   */
  completeIn(tx: CallerTransaction, completion: Completion): Promise<boolean>
  /** Whether this lease's `completeIn` was committed. Not whether the lease is gone: it may have gone to another. */
  isCompleted(delivery: LeasedDelivery): Promise<boolean>
}

export interface Want {
  readonly subscription: number
  readonly eventsMax: number
  readonly runsMax: number
  readonly laneMax: number
  readonly suspects: boolean
  /** A suspended subscription gives out one delivery as well, to see whether its endpoint is back. */
  readonly probe?: boolean
  /** The token by which this process has the subscription's queue in its memory. */
  readonly memoryToken?: number
}

export interface LeaseAnswer {
  readonly runs: readonly LeasedRun[]
  /** Something could not be looked at just now: ask again soon. */
  readonly again: boolean
  /** Monotonic: when these runs were asked for, if not by this very call. */
  readonly askedAt?: number
}

/** By the worker's own watch: how long after the lease the attempt began, and how long it took. */
export interface Timing {
  readonly startedAfterMs: number
  readonly executionMs: number
}

export interface Isolated {
  readonly run: LeasedRun
  /** A transaction whose snapshot is older than this cannot see how the lease stands. */
  readonly mark: string
}

export interface Completion extends Timing {
  readonly delivery: LeasedDelivery
  readonly mark: string
}

export interface SettleDelivery extends Timing {
  readonly delivery: LeasedDelivery
  readonly settlement: Settlement | { readonly kind: 'release' } | { readonly kind: 'cancel' }
  /** The request and answer of a webhook. */
  readonly exchange?: ExchangeRecord | undefined
}

export type SettleAnswer =
  | 'settled'
  /** The transaction that was given to `completeIn` had committed, whatever the settlement was. */
  | 'completed'
  | 'lost'

export interface Beat {
  readonly run: LeasedRun
  readonly begun: readonly number[]
}

export interface HeldLease {
  readonly run: LeasedRun
  /** False: still held, but not for longer than before. */
  readonly renewed: boolean
  readonly cancelled: readonly number[]
  /** The source could not tell: ask again, no sooner than after `waitMs`. */
  readonly unknown?: { readonly error: unknown; readonly waitMs: number }
}
