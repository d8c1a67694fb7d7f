import { EventEmitter } from 'node:events'
import type { Database } from './db/database.ts'
import type { Directory } from './directory.ts'
import type { Catalogue, EventToPublish } from './domain/catalogue.ts'
import type { EventInput } from './domain/event.ts'
import { checkOptions } from './domain/known-names.ts'
import type { RecoverOptions, ReplayOptions } from './domain/replay.ts'
import type { StoredEvent } from './domain/stored-event.ts'
import {
  defineSubscription,
  type Subscription,
  type SubscriptionOptions,
  typesOf,
} from './domain/subscription.ts'
import { readReason } from './domain/text.ts'
import { PosthornError } from './errors.ts'
import type { Memory } from './memory/memory.ts'
import type { Burial, HubEvents } from './observe/hub-events.ts'
import type { Metrics } from './observe/metrics.ts'
import { type Action, recordAction } from './operations/admin-log.ts'
import type { Admitter } from './operations/admit.ts'
import { type Cancelled, cancelEvents } from './operations/cancel.ts'
import * as letters from './operations/dead-letters.ts'
import * as eventTypes from './operations/event-type.ts'
import { type EventDetails, getEvent } from './operations/events.ts'
import {
  type EventFilter,
  type EventPage,
  listEvents,
  listUnfinished,
  type UnfinishedPage,
} from './operations/list-events.ts'
import { type Redriven, redrive } from './operations/redrive.ts'
import { reset } from './operations/reset.ts'
import { type PayloadSearch, type PayloadSearchPage, searchPayload } from './operations/search-payload.ts'
import { deleteSubscription, listSubscriptions, upsertSubscription } from './operations/subscriptions.ts'
import {
  listWorkerPage,
  listWorkers,
  type Worker,
  type WorkerFilter,
  type WorkerPage,
} from './operations/workers.ts'
import type { PublishedEvent, Publisher, PublishOptions } from './publish/publisher.ts'
import { type FinalizeOptions, Polling, type PollOptions } from './pull/polling.ts'
import type { Pull } from './pull/pull.ts'
import type { RecentSettlements } from './pull/recent-settlements.ts'
import type { Endpoints } from './push/endpoints.ts'
import { Queues } from './queues.ts'
import { Readiness } from './readiness.ts'
import { discardOne, type RedrivenSome, redriveOne, redriveSome } from './repair/dead-letters.ts'
import { Deliveries } from './repair/deliveries.ts'
import { Lanes, type LaneVerb } from './repair/lanes.ts'
import { type Replay, Replays, type ReplayTerms, type StartedReplay } from './replays.ts'
import type { Pruned, PruneOptions, Retention, Storage } from './retention/retention.ts'

export type { Cancelled } from './operations/cancel.ts'
export type { DeadLetter, DeadLetterFilter, DeadLetterHead } from './operations/dead-letters.ts'
export type { LogEntry } from './operations/event-log.ts'
export type { EventDetails } from './operations/events.ts'
export type { LeaseClaim } from './operations/find-leases.ts'
export type { DeliveryAttempt, DeliveryDetails } from './operations/get-delivery.ts'
export type { DeliveryFilter } from './operations/list-deliveries.ts'
export type { EventFilter, UnfinishedPage } from './operations/list-events.ts'
export type { LaneDetails, LaneFilter } from './operations/list-lanes.ts'
export type { ListedDelivery } from './operations/listed-delivery.ts'
export type { Published } from './operations/publish.ts'
export type { SettlementRecord } from './operations/settlement-record.ts'
export type { Subscriber } from './operations/subscribers.ts'
export type { Reply, Report } from './pull/settler.ts'
export type { EndpointWish } from './push/endpoints.ts'
export type { Checkpoint, Queue, QueuedEvent, Recovery } from './queues.ts'
export type { Replay, ReplayCount } from './replays.ts'
export type { FinalizeOptions, HubEvents, PollOptions, Storage }

export interface HubParts {
  readonly db: Database
  readonly publisher: Publisher
  readonly admitter: Admitter
  readonly metrics: Metrics
  readonly worker: () => Promise<number>
  readonly buried: (burial: Burial) => void
  /** A lease failed, perhaps after its commit. */
  readonly lost: (worker: number, token: number) => void
  readonly directory: Directory
  readonly endpoints: Endpoints
  readonly pull: Pull
  /** What `finalize` has settled. */
  readonly recent: RecentSettlements
  readonly retention: Retention
  readonly memory: Memory
  /** Throws unless the database answers and its schema is what this version expects. */
  readonly ready: () => Promise<void>
}

const redrivenMax = 1_000
/** The operations bound to a database: what library users and the routes see. */
export class Hub<C extends Catalogue = Catalogue> {
  readonly events = new EventEmitter<HubEvents>()
  readonly metrics: Metrics
  /** Leases for workers elsewhere. */
  readonly pull: Pull
  /** What is delivered once more on demand. */
  readonly replays: Replays
  /** Single deliveries: what became of them, and what an operator may do about it. */
  readonly deliveries: Deliveries
  readonly lanes: Lanes
  readonly queues: Queues
  readonly retention: Retention
  readonly #parts: HubParts
  readonly #polling: Polling
  readonly #readiness: Readiness

  constructor(parts: HubParts) {
    this.#parts = parts
    this.#polling = new Polling(parts)
    this.#readiness = new Readiness(parts.ready)
    this.metrics = parts.metrics
    this.pull = parts.pull
    this.retention = parts.retention
    this.replays = new Replays(parts)
    this.deliveries = new Deliveries(parts)
    this.queues = new Queues(parts)
    this.lanes = new Lanes({ ...parts, deliveries: this.deliveries })
  }

  /** All metrics as Prometheus reads them; without the database, those that need none. */
  scrape(): Promise<string> {
    return this.metrics.registry.metrics()
  }

  /** Stores the event and what is owed of it; resolves once that is durable (or, with `tx`, part of it). */
  publish(event: EventToPublish<C>, options?: PublishOptions): Promise<PublishedEvent> {
    return this.#parts.publisher.publish(event as EventInput, options)
  }

  /** Many events in one statement: all or none, in the order given. */
  publishMany(events: readonly EventToPublish<C>[], options?: PublishOptions): Promise<PublishedEvent[]> {
    return this.#parts.publisher.publishMany(events as readonly EventInput[], options)
  }

  /** What is parsed already: the routes keep the text that came. */
  get publisher(): Publisher {
    return this.#parts.publisher
  }

  /** The subscriptions by name and number, as of a moment ago. */
  get directory(): Directory {
    return this.#parts.directory
  }

  /** The queues in the memory of this process. */
  get memory(): Memory {
    return this.#parts.memory
  }

  /** Subscribers that are sent webhooks. */
  get endpoints(): Endpoints {
    return this.#parts.endpoints
  }

  /** Creates or changes a durable pull subscription. */
  async subscribe(types: string | readonly string[], options: SubscriptionOptions): Promise<Subscription> {
    const definition = defineSubscription('pull', typesOf(types), options)
    const { subscription } = await upsertSubscription(this.#parts.db, definition)
    this.#parts.directory.forget()
    return subscription
  }

  /** Ends a subscription: what still waits for it is cancelled, and stays visible. */
  async unsubscribe(name: string): Promise<void> {
    if (name === 'work') {
      const expected = 'a subscription that can be ended'
      throw new PosthornError('BAD_OPTION', {
        option: 'name',
        expected,
        value: 'work, where all tagged events go',
      })
    }
    const no = await deleteSubscription(this.#parts.db, this.#parts.db, { name })
    this.#parts.directory.forget()
    if (no === undefined) throw new PosthornError('NOT_FOUND', { what: 'subscription', id: name })
  }

  subscriptions(): Promise<Subscription[]> {
    return listSubscriptions(this.#parts.db)
  }

  /** Says how long events of a type live and whether somebody must want them; what is left out is the default. */
  defineType(type: string, options: eventTypes.EventTypeOptions = {}): Promise<eventTypes.EventType> {
    return eventTypes.upsertEventType(this.#parts.db, type, options)
  }

  /** Events of the type that are published from now on are like any other. */
  deleteType(type: string): Promise<void> {
    return eventTypes.deleteEventType(this.#parts.db, type)
  }

  types(): Promise<eventTypes.EventType[]> {
    return eventTypes.listEventTypes(this.#parts.db)
  }

  /** Leases the oldest event that waits, or null. This hub remembers the lease for `finalize`. */
  poll(options?: PollOptions): Promise<StoredEvent | null> {
    return this.#polling.poll(options)
  }

  /**
   * Ends what `poll` leased: completed, or with errors for good, as a dead letter. Doing it twice is doing it
   * once, and what this hub has not polled is left alone. Throws LEASE_LOST when the lease went to another, was buried, or ended otherwise; AMBIGUOUS_LEASE when
   * the event is held through several subscriptions and none is named.
   */
  finalize(eventId: number, errors?: readonly unknown[], options?: FinalizeOptions): Promise<void> {
    return this.#polling.finalize(eventId, errors, options)
  }

  /** Hands back what `poll` leased and nobody finalized. */
  protected stopPolling(): Promise<void> {
    return this.#polling.stop()
  }

  /** An event with where it stands, its deliveries and, if asked for, its log; undefined if there is none. */
  async event(id: number, options: { readonly logs?: boolean } = {}): Promise<EventDetails | undefined> {
    checkOptions(options, { logs: true }, 'event')
    const { logs = false } = options
    return getEvent(this.#parts.db, { id, logs: logs ? 'with' : 'without' })
  }

  listEvents(filter?: EventFilter): Promise<EventPage> {
    return listEvents(this.#parts.db, filter)
  }

  /** The ids of events that match and are not finished: what can be cancelled. */
  listUnfinished(filter: EventFilter): Promise<UnfinishedPage> {
    return listUnfinished(this.#parts.db, filter)
  }

  /** Events whose payload has certain values at certain paths, looked for within bounds. */
  searchPayloads(search: PayloadSearch): Promise<PayloadSearchPage> {
    return searchPayload(this.#parts.db, search)
  }

  /** Writes to the admin log who does what. */
  record(action: Action): Promise<void> {
    return recordAction(this.#parts.db, action)
  }

  /** Why it cannot do its work now; undefined: it can. Asked at most once a second, however many want to know. */
  unready(): Promise<string | undefined> {
    return this.#readiness.trouble()
  }

  deadLetters(filter?: letters.DeadLetterFilter): Promise<letters.DeadLetterPage> {
    return letters.listDeadLetters(this.#parts.db, filter)
  }

  /** The same without snapshots, which may have a megabyte each. */
  deadLetterHeads(
    filter?: letters.DeadLetterFilter,
  ): Promise<letters.DeadLetterPage<letters.DeadLetterHead>> {
    return letters.listDeadLetterHeads(this.#parts.db, filter)
  }

  deadLetter(id: string): Promise<letters.DeadLetter | undefined> {
    return letters.getDeadLetter(this.#parts.db, id)
  }

  /** Every worker seen: when last, what it has under way, and whether it has gone silent. */
  workers(): Promise<Worker[]> {
    return listWorkers(this.#parts.db)
  }

  /** The same in pages, in the order in which they were first seen. */
  workerPage(filter?: WorkerFilter): Promise<WorkerPage> {
    return listWorkerPage(this.#parts.db, filter)
  }

  /**
   * Cancels what waits of these events; what is under way is told by heartbeat, and is not tried again. Throws
   * CANCEL_UNFINISHED, to be called again, if some of it kept moving.
   */
  async cancel(eventIds: readonly number[], reason = 'cancelled'): Promise<Cancelled[]> {
    const request = { eventIds, subscription: null, reason: readReason(reason) }
    return cancelEvents(this.#parts.db, this.#parts.admitter, request)
  }

  /** Takes the leased deliveries of an event away from their workers, back to waiting. Failures stay counted. */
  async reset(eventId: number, reason: string): Promise<number> {
    return (await reset(this.#parts.db, { eventId, reason: readReason(reason) })).length
  }

  /** Erases what a finished event said, and keeps its audit; it is never delivered again. Throws NOT_FINISHED. */
  async purge(eventId: number, reason: string): Promise<void> {
    await this.retention.purge(eventId, reason)
  }

  /** Removes all that need not be kept any longer, now; upkeep does the same little by little. */
  prune(options?: PruneOptions): Promise<Pruned> {
    return this.retention.prune(options)
  }

  /** How much is stored of what, and how long it is kept. */
  storage(): Promise<Storage> {
    return this.retention.storage()
  }

  /** Gives dead letters a fresh budget. */
  redrive(deadLetterIds: readonly string[], by = 'library'): Promise<Redriven[]> {
    return redrive(this.#parts.db, { deadLetterIds, by })
  }

  /** Gives all dead letters of a subscription since a moment a fresh budget, as work that outlives this process. */
  recover(subscription: string, options: RecoverOptions, terms?: ReplayTerms): Promise<StartedReplay> {
    return this.replays.recover(subscription, options, terms)
  }

  /** Sends events to a subscription once more, whatever became of them, as work that outlives this process. */
  replay(subscription: string, options: ReplayOptions, terms?: ReplayTerms): Promise<StartedReplay> {
    return this.replays.replay(subscription, options, terms)
  }

  getReplay(id: string): Promise<Replay> {
    return this.replays.get(id)
  }

  abortReplay(id: string): Promise<Replay> {
    return this.replays.abort(id)
  }

  /** The same for one: throws NOT_FOUND, ALREADY_RETRIED or, if its subscription is gone, NOT_RETRYABLE. */
  retryDeadLetter(id: string, by = 'library'): Promise<readonly Redriven[]> {
    return redriveOne(this.#parts.db, id, by)
  }

  /** The same for those that match, up to 1,000, in the order of their events. The filter must leave something out. */
  retryDeadLetters(filter: letters.DeadLetterFilter, by = 'library'): Promise<RedrivenSome> {
    return redriveSome(this.#parts.db, filter, { by, max: redrivenMax })
  }

  /** Throws a dead letter away for good; a lane that stopped at it goes on. */
  discardDeadLetter(id: string, by = 'library'): Promise<void> {
    return discardOne(this.#parts.db, id, by)
  }

  /**
   * What to do with a lane that stopped at its buried head, or whose head waits for a retry: try the head again, leave
   * it to the dead letters, or throw it away.
   */
  async unblock(subscription: string, orderingKey: string, verb: LaneVerb, by = 'library'): Promise<void> {
    const { no, name } = await this.#parts.directory.current(subscription)
    await this.lanes.settleHead({ subscription: no, name, orderingKey }, verb, by)
  }
}
