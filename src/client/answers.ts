import type { DeliveryState, EventStatus } from '../domain/status.ts'
import type { StoredEvent, StoredEventFields } from '../domain/stored-event.ts'

/** Where an event stands. */
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
  /** It had been published before under the same idempotency key. */
  readonly replayed: boolean
  /** Queues it is owed to that are past their high watermark, by name: publish more slowly. */
  readonly backpressure: readonly string[]
}

export interface LeasedEvent extends RemoteEvent {
  readonly leaseToken: string
  readonly leaseExpiresAt: Date
  /** From 1. */
  readonly attempt: number
  /** The name of the subscription it was leased through. */
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
  /** Null where payloads were searched. */
  readonly total: number | null
  readonly totalIsEstimate: boolean
  /** For the page after this one; null: this is the last. */
  readonly nextCursor: string | null
  /** Set where the page is short because the call ended early: it has searched up to this time. */
  readonly searchedTo: Date | null
  /** How far a search of payloads came; null: none was searched. */
  readonly searched: Readonly<Record<string, unknown>> | null
}

/** A failure is recorded either way; whether there will be another attempt is the server's decision. */
export type FailAnswer =
  | (LogEntry & { readonly retryScheduled: true; readonly nextRetryAt: Date })
  | { readonly retryScheduled: false; readonly retryCount: number; readonly maxRetries: number }

export interface HeartbeatAnswer {
  readonly eventId: number
  readonly leaseToken: string
  readonly leaseExpiresAt: Date
  /** An operator wants it stopped. */
  readonly cancelled: boolean
  /** All under the same token that an operator wants stopped. */
  readonly cancelledEventIds: readonly number[]
  /** Its queue is paused: what has not begun is to be handed back. */
  readonly held: boolean
}

/** What became of one outcome: 200 and 400 (its failures are used up) are settled, 404 and 409 came too late. */
export interface SettleResult {
  readonly eventId: number
  readonly status: 200 | 400 | 404 | 409 | 422
  readonly code?: string
  readonly error?: string
  readonly retryScheduled?: boolean
  readonly nextRetryAt?: Date
}

export interface CancelAnswer {
  /** Deliveries that waited and are cancelled. */
  readonly cancelled: number
  /** Deliveries under way, whose workers are told by heartbeat. */
  readonly told: number
}

export interface CancelManyAnswer extends CancelAnswer {
  /** There were too many for one call: cancel again, with `nextCursor` as `cursor`. */
  readonly more: boolean
  /** Given if there are more. */
  readonly nextCursor?: string
}

export interface RemoteWorker {
  readonly workerId: string
  readonly lastSeenAt: Date
  readonly inFlight: number
  readonly stale: boolean
  /** What came first, and when; null: it is not stale. */
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
  /** Of a webhook. `[hidden]` stands for a value that is not shown. */
  readonly headers?: Readonly<Record<string, string>>
  readonly publicHeaders?: readonly string[]
  readonly createdAt: Date
  readonly updatedAt: Date
}
