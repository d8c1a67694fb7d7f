import { type CallerTransaction, checkTransaction } from '../domain/caller-transaction.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import { eventFieldNames, type NewEvent } from '../domain/event.ts'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import { PosthornError } from '../errors.ts'
import type { IdleRunner, Published } from './publish.ts'

export interface PublishOptions {
  /** Your own transaction: the events exist if and when it commits. */
  readonly tx?: CallerTransaction
  /** With `tx`: `false` leaves it to polling to find the events, instead of notifying at commit. Default `true`. */
  readonly notify?: boolean
}

const publishOptions: NamesOf<PublishOptions> = { tx: true, notify: true }

export function checkPublishOptions(options: PublishOptions): void {
  if (typeof (options as { query?: unknown } | null)?.query === 'function') {
    throw new PosthornError('BAD_OPTION', {
      option: 'tx',
      expected: 'given as publish(event, { tx })',
      value: 'a transaction in place of the options',
    })
  }
  checkOptions(options, publishOptions, 'publish', { meant: meantForEvent })
  const { tx, notify = true } = options
  if (tx !== undefined) checkTransaction(tx)
  if (typeof notify !== 'boolean') {
    throw new PosthornError('BAD_OPTION', { option: 'notify', expected: 'true or false', value: notify })
  }
}

const meantForEvent = Object.fromEntries(
  eventFieldNames.map((field) => [field, `the field ${field} of the event`]),
)

/** What a publisher gets back. */
export interface PublishedEvent {
  readonly id: number
  /** The idempotency key was used before: `id` is that of the first event. */
  readonly replayed: boolean
  /** The number of subscriptions that the event is owed to. */
  readonly deliveries: number
  readonly createdAt: Date
  /** Names of queues that the event is owed to and that are past their high watermark: publish more slowly. */
  readonly backpressure: readonly string[]
  /** `process`: the event is in the memory of this process, and a crash can lose it until it is persisted. */
  readonly durability: Durability
}

export type Durability = 'durable' | 'process'

/** The memory queues of this process. */
export interface PublisherMemory {
  /** Their numbers. */
  readonly here: readonly number[]
  readonly intake: Intake
}

/** Takes events that are owed only to memory queues of this process. */
export interface Intake {
  /** Undefined: the events must be stored in the database. */
  take(events: readonly NewEvent[]): Promise<readonly Published[] | undefined>
  stored(events: readonly NewEvent[], published: readonly Published[]): void
}

/** Lets the publishing statement lease deliveries to a waiting runner of this process. */
export interface HandOver {
  /** The runner that would begin this many deliveries at once; undefined: no runner would. */
  idle(deliveries: number): Promise<WaitingRunner | undefined>
  /** Gives the runner the runs that were leased to it by a statement sent at this monotonic time. */
  take(runs: readonly LeasedRun[], askedAt: number): Promise<void>
}

export interface WaitingRunner extends IdleRunner {
  /** Call this when the runner holds the leased runs, or when the answer will not come. */
  readonly arrived: () => void
}
