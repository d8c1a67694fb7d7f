import type { Subscription } from './subscription.ts'

/** This many subscriptions are told apart in figures; the rest has one name, which no subscription can have. */
export const toldApartMax = 1_000
export const allOthers = '(other)'

/** What there is to know of a database at a glance. */
export interface Stats {
  /** By the age of their subscriptions; those beyond a bound are summed up in the last. */
  readonly queues: readonly QueueStats[]
  /** Those that nobody has redriven. */
  readonly deadLetters: number
  /** With their indexes. */
  readonly tables: readonly { readonly table: string; readonly bytes: number }[]
  /** Of those that this role may see; 0: none is open. */
  readonly oldestTransactionSeconds: number
  readonly workers: { readonly alive: number; readonly stale: number }
  /** Picked and not ended for longer than the hub allows. */
  readonly attemptsOverdue: number
}

/** What waits for one subscription. */
export interface QueueStats {
  readonly name: string
  /** Null: several. */
  readonly via: Subscription['via'] | null
  /** Deliveries that wait, for whatever reason. */
  readonly waiting: number
  /** Of these, those that wait for their time: delays, retries, snoozes. */
  readonly delayed: number
  /** Of these, those that have failed before. */
  readonly retries: number
  readonly leased: number
  /** How many of those that wait must miss their expiry at the rate of late. */
  readonly expiring: number
  /** How long the oldest has waited that does not wait for its time; 0: none does. */
  readonly oldestSeconds: number
}
