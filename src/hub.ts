import type { EventEmitter } from 'node:events'
import type { DeliveriesApi } from './deliveries/deliveries-api.ts'
import type { Publisher } from './engine/publisher.ts'
import type { EventsApi } from './events/events-api.ts'
import type { Action } from './keys/admin-log.ts'
import type { Memory } from './memory/memory.ts'
import type { HubEvents } from './observe/hub-events.ts'
import type { Metrics } from './observe/metrics.ts'
import type { FinalizeOptions, PollingApi, PollOptions } from './pull/polling.ts'
import type { Pull } from './pull/pull.ts'
import type { Queues } from './queues/queues.ts'
import type { Retention, Storage } from './retention/retention.ts'
import type { SubscriptionCache } from './subscriptions/subscription-cache.ts'
import type { SubscriptionsApi } from './subscriptions/subscriptions-api.ts'
import type { Endpoints } from './webhooks/send/endpoints.ts'
import type { WorkersApi } from './workers/workers-api.ts'

export type { DeadLetter, DeadLetterFilter, DeadLetterHead } from './deliveries/dead-letters.ts'
export type { DeliveryAttempt, DeliveryDetails } from './deliveries/get-delivery.ts'
export type { DeliveryFilter } from './deliveries/list-deliveries.ts'
export type { LaneDetails, LaneFilter } from './deliveries/list-lanes.ts'
export type { ListedDelivery } from './deliveries/listed-delivery.ts'
export type { Replay, ReplayCount } from './deliveries/replays.ts'
export type { Cancelled } from './engine/cancel.ts'
export type { Published } from './engine/publish.ts'
export type { LogEntry } from './events/event-log.ts'
export type { EventDetails } from './events/get-event.ts'
export type { EventFilter, UnfinishedPage } from './events/list-events.ts'
export type { LeaseClaim } from './pull/find-leases.ts'
export type { Reply, Report } from './pull/pull-settler.ts'
export type { SettlementRecord } from './pull/settlement-record.ts'
export type { Checkpoint, Queue, QueuedEvent, Recovery } from './queues/queues.ts'
export type { Subscriber } from './subscriptions/subscribers.ts'
export type { EndpointWish } from './webhooks/send/endpoints.ts'
export type { FinalizeOptions, HubEvents, PollOptions, Storage }

/** All that a hub can be asked for besides publishing and handling: each feature brings its own part. */
export interface Hub
  extends EventsApi,
    DeliveriesApi,
    SubscriptionsApi,
    PollingApi,
    Pick<Retention, 'prune' | 'purge' | 'storage'>,
    WorkersApi {
  /** What happens in this process, for whoever listens. */
  readonly events: EventEmitter<HubEvents>
  readonly metrics: Metrics
  readonly queues: Queues
  readonly retention: Retention
  /** Leases for workers elsewhere. */
  readonly pull: Pull
  /** Publishes parsed events: HTTP routes parse the text that came, and then publish by the same call as `publish`. */
  readonly publisher: Publisher
  /** Subscriptions by name, number and id. */
  readonly subscribers: SubscriptionCache
  /** Subscribers that are sent webhooks. */
  readonly endpoints: Endpoints
  /** The queues in the memory of this process. */
  readonly memory: Memory
  /** All metrics as Prometheus reads them; without the database, those that need none. */
  scrape(): Promise<string>
  /** Writes to the admin log who does what. */
  record(action: Action): Promise<void>
  /** Why the hub cannot do its work now; undefined: it can. The database is asked at most once a second. */
  unready(): Promise<string | undefined>
}
