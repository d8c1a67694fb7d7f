import type { EventEmitter } from 'node:events'
import type { Config } from './config.ts'
import type { Runner } from './consume/runner.ts'
import type { Core } from './core/core.ts'
import { watchReadiness } from './core/readiness.ts'
import { checkReady } from './db/migrate.ts'
import { createDeliveriesApi, type DeliveriesApi } from './deliveries/deliveries-api.ts'
import type { Admitter } from './engine/admit.ts'
import type { Publisher } from './engine/publisher.ts'
import { createEventsApi, type EventsApi } from './events/events-api.ts'
import { type Action, recordAction } from './keys/admin-log.ts'
import type { Memory } from './memory/memory.ts'
import { observeFigures } from './observe/gauges.ts'
import type { Burial, HubEvents } from './observe/hub-events.ts'
import type { Metrics } from './observe/metrics.ts'
import { readStats } from './observe/stats.ts'
import type { FinalizeOptions, Polling, PollingApi, PollOptions } from './pull/polling.ts'
import type { Pull } from './pull/pull.ts'
import { Queues } from './queues/queues.ts'
import type { Retention, Storage } from './retention/retention.ts'
import type { SubscriptionCache } from './subscriptions/subscription-cache.ts'
import { createSubscriptionsApi, type SubscriptionsApi } from './subscriptions/subscriptions-api.ts'
import type { Endpoints } from './webhooks/send/endpoints.ts'
import type { Push } from './webhooks/send/push.ts'
import { createWorkersApi, type WorkersApi } from './workers/workers-api.ts'

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
export type { ListedEvent } from './events/listed-event.ts'
export type { LeaseClaim } from './pull/find-leases.ts'
export type { Reply, Report } from './pull/pull-settler.ts'
export type { SettlementRecord } from './pull/settlement-record.ts'
export type { Checkpoint, Queue, QueuedEvent, Recovery } from './queues/queues.ts'
export type { Subscriber } from './subscriptions/subscribers.ts'
export type { EndpointWish } from './webhooks/send/endpoints.ts'
export type { Worker } from './workers/workers.ts'
export type { FinalizeOptions, HubEvents, PollOptions, Storage }

/** All that a hub can be asked for besides publishing and handling: each feature brings its own part. */
export interface Hub
  extends EventsApi,
    DeliveriesApi,
    SubscriptionsApi,
    PollingApi,
    Pick<Retention, 'prune' | 'purge' | 'storage'>,
    WorkersApi {
  /** What happens in this process, for listeners. */
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

export interface HubParts {
  readonly config: Config
  readonly admitter: Admitter
  readonly subscriptions: SubscriptionCache
  readonly memory: Memory
  readonly runner: Runner
  readonly push: Push
  readonly publisher: Publisher
  readonly pull: Pull
  readonly polling: Polling
  readonly retention: Retention
  readonly buried: (burial: Burial) => void
}

/** The APIs of the features, side by side. */
export function composeHub(core: Core, parts: HubParts): Hub {
  const { db, events, metrics, identity } = core
  const { admitter, subscriptions, memory, push, publisher, pull, polling, retention, buried } = parts
  observeGauges(core, parts)
  return {
    ...createEventsApi(core, admitter),
    ...createDeliveriesApi(core, { admitter, subscriptions, buried }),
    ...createSubscriptionsApi(core, subscriptions),
    ...createWorkersApi(core),
    poll: (options) => polling.poll(options),
    finalize: (eventId, errors, options) => polling.finalize(eventId, errors, options),
    queues: new Queues({ db, subscriptions, memory }),
    events,
    metrics,
    retention,
    prune: retention.prune,
    purge: retention.purge,
    storage: retention.storage,
    pull,
    publisher,
    memory,
    subscribers: subscriptions,
    endpoints: push.endpoints,
    scrape: () => metrics.registry.metrics(),
    record: (action) => recordAction(db, action),
    unready: watchReadiness(() => checkReady(db, identity.register)),
  }
}

function observeGauges({ db, metrics, trouble }: Core, { config, runner, pull, memory }: HubParts): void {
  db.waited = (ms) => metrics.poolWaitSeconds.observe(ms / 1000)
  observeFigures(metrics, {
    underWay: () => runner.underWay,
    longPolls: () => pull.waiting,
    connections: () => db.connections,
    stats: () => readStats(db, config),
    memory: () => memory.views,
    trouble,
  })
}
