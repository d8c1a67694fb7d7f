import type { Subscription } from './subscription.ts'

/** Metrics have at most this many subscriptions; the rest share one name, which no subscription can have. */
export const toldApartMax = 1_000
export const allOthers = '(other)'

/** The state of the database in numbers. */
export interface Stats {
  /** Oldest subscription first; those beyond the bound are added up in the last entry. */
  readonly queues: readonly QueueStats[]
  /** Dead letters that nobody has retried. */
  readonly deadLetters: number
  /** Tables with the size of their indexes. */
  readonly tables: readonly { readonly table: string; readonly bytes: number }[]
  /** The oldest transaction that this role may see; 0: none is open. */
  readonly oldestTransactionSeconds: number
  readonly workers: { readonly alive: number; readonly stale: number }
  /** Attempts that have taken longer than the hub allows. */
  readonly attemptsOverdue: number
}

/** The queue of one subscription in numbers. */
export interface QueueStats {
  readonly name: string
  /** Null: several subscriptions. */
  readonly via: Subscription['via'] | null
  /** All waiting deliveries. */
  readonly waiting: number
  /** Waiting deliveries that are not due yet: delays, retries, snoozes. */
  readonly delayed: number
  /** Waiting deliveries that have failed before. */
  readonly retries: number
  readonly leased: number
  /** Waiting deliveries that will expire at the present rate. */
  readonly expiring: number
  /** How long the oldest due delivery has waited; 0: none is due. */
  readonly oldestSeconds: number
}
