import type { DeliveryState, EventStatus } from '../domain/status.ts'
import type { StoredEvent, StoredEventFields } from '../domain/stored-event.ts'

/** How far an event has come. */
export interface Standing {
  readonly status: EventStatus
  readonly retryCount: number
  readonly nextRetryAt: Date | null
  readonly updatedAt: Date
}

export interface RemoteEvent extends StoredEvent, Standing {}

/** An event in a list: everything but its payload, which may be a megabyte. */
export interface ListedEvent extends Omit<StoredEventFields, 'payloadText'>, Standing {}

export interface PublishedEvent extends RemoteEvent {
  /** True: the event had been published before with the same idempotency key. */
  readonly replayed: boolean
  /** The names of queues that got the event and are above their high watermark: publish more slowly. */
  readonly backpressure: readonly string[]
}

export interface LeasedEvent extends RemoteEvent {
  readonly leaseToken: string
  readonly leaseExpiresAt: Date
  /** The first attempt is 1. */
  readonly attempt: number
  /** The name of the subscription that the event was leased through. */
  readonly subscription: string
}

export interface EventDelivery {
  readonly id: string
  /** The subscription's name. */
  readonly subscription: string
  readonly subscriptionId: string
  readonly state: DeliveryState
  readonly attempts: number
  readonly failures: number
  readonly nextAt: Date | null
  readonly lastError: string | null
  readonly lastErrorAt: Date | null
  readonly leasedAt: Date | null
  readonly leasedUntil: Date | null
  readonly workerId: string | null
  readonly updatedAt: Date
}

export interface LogEntry {
  readonly id: number
  readonly eventId: number
  readonly workerId: string | null
  readonly action: string
  readonly createdAt: Date
  readonly statusCode?: number
  readonly errorMessage?: string
  readonly executionTimeMs?: number
}

export interface EventDetails extends RemoteEvent {
  readonly deliveries: readonly EventDelivery[]
  /** Empty unless asked for. */
  readonly logs: readonly LogEntry[]
}

export interface EventPage {
  readonly events: readonly ListedEvent[]
  /** Null if payloads were searched. */
  readonly total: number | null
  readonly totalIsEstimate: boolean
  /** Asks for the next page; null: this is the last page. */
  readonly nextCursor: string | null
  /** Set if the call ended before the page was full: it has searched up to this time. */
  readonly searchedTo: Date | null
  /** How far the search of payloads came; null: no payloads were searched. */
  readonly searched: Readonly<Record<string, unknown>> | null
}

/** The failure is recorded. The server decides whether there will be another attempt. */
export type FailAnswer =
  | (LogEntry & { readonly retryScheduled: true; readonly nextRetryAt: Date })
  | { readonly retryScheduled: false; readonly retryCount: number; readonly maxRetries: number }

export interface HeartbeatAnswer {
  readonly eventId: number
  readonly leaseToken: string
  readonly leaseExpiresAt: Date
  /** True: an operator has cancelled the event. */
  readonly cancelled: boolean
  /** The cancelled events among all that the worker holds through the same subscription. */
  readonly cancelledEventIds: readonly number[]
  /** True: the queue is paused. The worker must hand back deliveries that have not begun. */
  readonly held: boolean
}

/** The answer to one outcome. 200 and 400 (no attempts are left): settled. 404 and 409: the outcome came too late. */
export interface SettleResult {
  readonly eventId: number
  readonly status: 200 | 400 | 404 | 409 | 422
  readonly code?: string
  readonly error?: string
  readonly retryScheduled?: boolean
  readonly nextRetryAt?: Date
}

export interface CancelAnswer {
  /** Deliveries that were waiting and are now cancelled. */
  readonly cancelled: number
  /** Deliveries under way, whose workers are told by heartbeat. */
  readonly told: number
}

export interface CancelManyAnswer extends CancelAnswer {
  /** There were too many for one call: cancel again, with `nextCursor` as `cursor`. */
  readonly more: boolean
  /** Set if there are more. */
  readonly nextCursor?: string
}

export interface RemoteWorker {
  readonly workerId: string
  readonly lastSeenAt: Date
  readonly inFlight: number
  readonly stale: boolean
  /** Why the worker became stale, and when; null: it is not stale. */
  readonly staleReason: 'silent' | 'lapsed_lease' | null
  readonly staleSince: Date | null
}

export interface Subscriber {
  readonly id: string
  readonly name: string
  readonly via: 'pull' | 'webhook' | 'handler'
  readonly eventTypes: readonly string[]
  readonly tags: readonly string[] | null
  readonly status: string
  readonly isActive: boolean
  readonly onExhausted: 'skip' | 'block'
  readonly retryBackoffSeconds: readonly number[] | null
  readonly retryDelaySeconds: number | null
  readonly maxRetries: number
  readonly leaseSeconds: number
  readonly maxConcurrency: number | null
  readonly ratePerSecond: number | null
  readonly keyConcurrency: number | null
  /** The headers of a webhook. `[hidden]` stands for a value that is not shown. */
  readonly headers?: Readonly<Record<string, string>>
  readonly publicHeaders?: readonly string[]
  readonly createdAt: Date
  readonly updatedAt: Date
}
