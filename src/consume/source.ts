import type { CallerTransaction } from '../domain/caller-transaction.ts'
import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import type { ExchangeRecord } from '../domain/exchange-record.ts'
import type { Settlement } from '../domain/settlement.ts'

/** Where leases come from and where settlements go: the hub, or the hub over HTTP. */
export interface Source {
  /** Leases at most as many as are wanted, oldest first. */
  lease(wants: readonly Want[]): Promise<LeaseAnswer>
  /** Whether a lease would find anything. It costs less than a lease. */
  peek(subscriptions: readonly number[]): Promise<boolean>
  /** Resolves when each settlement is durable, or known to be too late. Answers in the order given. */
  settle(settlements: readonly SettleDelivery[]): Promise<readonly SettleAnswer[]>
  heartbeat(beats: readonly Beat[]): Promise<readonly HeldLease[]>
  /** Hands back whole runs, in which no remaining delivery has begun. */
  release(runs: readonly LeasedRun[]): Promise<void>
  /**
   * Hands back deliveries that have not begun, while others of their runs go on. A source that can only hand back whole
   * runs does nothing: then these go back when the rest of their run has ended.
   */
  releaseSome(deliveries: readonly LeasedDelivery[]): Promise<void>
  /** Moves a delivery to a run of its own; undefined: the lease is lost. */
  isolate(delivery: LeasedDelivery): Promise<Isolated | undefined>
  /**
   * Settles as completed inside the caller's transaction; false if the lease is lost. Throws STALE_SNAPSHOT if the
   * transaction cannot see that.
   */
  completeIn(tx: CallerTransaction, completion: Completion): Promise<boolean>
  /** Whether this lease's `completeIn` was committed. A lost lease does not show that: another process may have the delivery. */
  isCompleted(delivery: LeasedDelivery): Promise<boolean>
}

export interface Want {
  readonly subscription: number
  readonly eventsMax: number
  readonly runsMax: number
  readonly laneMax: number
  readonly suspects: boolean
  /** Also leases one delivery of a suspended subscription, as a probe of its endpoint. */
  readonly probe?: boolean
  /** The token by which this process has the subscription's queue in its memory. */
  readonly memoryToken?: number
}

export interface LeaseAnswer {
  readonly runs: readonly LeasedRun[]
  /** Part of the work could not be looked at, because another process held a lock: ask again soon. */
  readonly again: boolean
  /** When these runs were asked for (monotonic), if not by this call. */
  readonly askedAt?: number
}

/** By the worker's clock: how long after the lease the attempt began, and how long it took. */
export interface Timing {
  readonly startedAfterMs: number
  readonly executionMs: number
}

export interface Isolated {
  readonly run: LeasedRun
  /** A transaction whose snapshot is older than this cannot see the state of the lease. */
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
  /** False: the lease still holds, but was not prolonged. */
  readonly renewed: boolean
  readonly cancelled: readonly number[]
  /** The source could not tell: ask again after `waitMs` at the earliest. */
  readonly unknown?: { readonly error: unknown; readonly waitMs: number }
}
