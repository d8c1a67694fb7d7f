import { EventEmitter } from 'node:events'
import type { Database } from './db/database.ts'
import type { Catalogue, EventToPublish } from './domain/catalogue.ts'
import type { EventInput } from './domain/event.ts'
import { type PolledLease, PolledLeases } from './domain/polled-leases.ts'
import { describeError } from './domain/settlement.ts'
import type { StoredEvent } from './domain/stored-event.ts'
import {
  defineSubscription,
  integer,
  type Subscription,
  type SubscriptionOptions,
} from './domain/subscription.ts'
import { toStorable } from './domain/text.ts'
import { PosthornError } from './errors.ts'
import { newToken } from './lease-source.ts'
import type { Burial, HubEvents } from './observe/hub-events.ts'
import type { Metrics } from './observe/metrics.ts'
import type { Admitter } from './operations/admit.ts'
import { type Cancelled, cancelEvents } from './operations/cancel.ts'
import {
  type DeadLetter,
  type DeadLetterFilter,
  type DeadLetterPage,
  getDeadLetter,
  listDeadLetters,
} from './operations/dead-letters.ts'
import {
  deleteEventType,
  type EventType,
  type EventTypeOptions,
  listEventTypes,
  upsertEventType,
} from './operations/event-type.ts'
import { type EventDetails, getEvent } from './operations/events.ts'
import { blockingLetter, unblockLane } from './operations/lanes.ts'
import { type EventFilter, type EventPage, listEvents } from './operations/list-events.ts'
import { completionOf, poll } from './operations/poll.ts'
import { type Redriven, redrive } from './operations/redrive.ts'
import { reset } from './operations/reset.ts'
import { type SettleRequest, settle } from './operations/settle.ts'
import { type LateAnswer, settleLate } from './operations/settle-late.ts'
import {
  deleteSubscription,
  findSubscription,
  listSubscriptions,
  upsertSubscription,
} from './operations/subscriptions.ts'
import { listWorkers, type Worker } from './operations/workers.ts'
import type { PublishedEvent, Publisher, PublishOptions } from './publisher.ts'

export type { HubEvents }

export interface HubParts {
  readonly db: Database
  readonly publisher: Publisher
  readonly admitter: Admitter
  readonly metrics: Metrics
  readonly worker: () => Promise<number>
  readonly buried: (burial: Burial) => void
}

export interface PollOptions {
  /** Which pull subscription. Default: the work queue, where every event with tags goes. */
  readonly subscription?: string
  /** Only events with any of these tags. */
  readonly tags?: readonly string[]
  /** 1,000 to 43,200,000. Default: the subscription's. */
  readonly leaseMs?: number
}

export interface FinalizeOptions {
  /** Through which subscription it was polled; needed only where it is held through several. */
  readonly subscription?: string
}

const reasonCharsMax = 4_000

interface Polled extends PolledLease {
  readonly subscriptionNo: number
  readonly request: SettleRequest
  readonly type: string | null
  readonly stopsLane: string | null
}

interface Ending {
  readonly settlement: 'completed' | 'buried'
  readonly reason: string | null
}

/** The operations bound to a database: what library users see, and later the routes. */
export class Hub<C extends Catalogue = Catalogue> {
  readonly events = new EventEmitter<HubEvents>()
  readonly metrics: Metrics
  readonly #parts: HubParts
  /** What `poll` has leased in this hub and `finalize` will settle. */
  readonly #polled = new PolledLeases<Polled>()

  constructor(parts: HubParts) {
    this.#parts = parts
    this.metrics = parts.metrics
  }

  /** Stores the event and what is owed of it; resolves once that is durable (or, with `tx`, part of it). */
  publish(event: EventToPublish<C>, options?: PublishOptions): Promise<PublishedEvent> {
    return this.#parts.publisher.publish(event as EventInput, options)
  }

  /** Many events in one statement: all or none, in the order given. */
  publishMany(events: readonly EventToPublish<C>[], options?: PublishOptions): Promise<PublishedEvent[]> {
    return this.#parts.publisher.publishMany(events as readonly EventInput[], options)
  }

  /** Creates or changes a durable pull subscription. */
  async subscribe(types: string | readonly string[], options: SubscriptionOptions): Promise<Subscription> {
    const definition = defineSubscription('pull', typeof types === 'string' ? [types] : types, options)
    return (await upsertSubscription(this.#parts.db, definition)).subscription
  }

  /** Ends a subscription: what still waits for it is cancelled, and stays visible. */
  async unsubscribe(name: string): Promise<void> {
    const no = await deleteSubscription(this.#parts.db, name)
    if (no === undefined) throw new PosthornError('NOT_FOUND', { what: 'subscription', id: name })
  }

  subscriptions(): Promise<Subscription[]> {
    return listSubscriptions(this.#parts.db)
  }

  /** Says how long events of a type live and whether somebody must want them; what is left out is the default. */
  defineType(type: string, options: EventTypeOptions = {}): Promise<EventType> {
    return upsertEventType(this.#parts.db, type, options)
  }

  /** Events of the type that are published from now on are like any other. */
  async deleteType(type: string): Promise<void> {
    const existed = await deleteEventType(this.#parts.db, type)
    if (!existed) throw new PosthornError('NOT_FOUND', { what: 'event type', id: type })
  }

  types(): Promise<EventType[]> {
    return listEventTypes(this.#parts.db)
  }

  /** Leases the oldest event that waits, or undefined. This hub remembers the lease for `finalize`. */
  async poll(options: PollOptions = {}): Promise<StoredEvent | undefined> {
    const asked =
      options.leaseMs === undefined ? undefined : integer('leaseMs', options.leaseMs, 1_000, 43_200_000)
    const subscription = await this.#subscription(options.subscription ?? 'work')
    const request = {
      subscription,
      leaseMs: asked ?? subscription.leaseMs,
      tags: options.tags ?? null,
      token: newToken(),
      worker: await this.#parts.worker(),
    }
    const delivery = await poll(this.#parts.db, this.#parts.admitter, request)
    if (delivery === undefined) return undefined
    const { event } = delivery
    this.#polled.remember({
      eventId: event.id,
      subscription: subscription.name,
      subscriptionNo: subscription.no,
      type: event.type,
      stopsLane: subscription.onExhausted === 'block' ? event.orderingKey : null,
      request: completionOf(delivery),
    })
    return event
  }

  /**
   * Ends what `poll` leased: completed, or with errors for good, as a dead letter. Doing it twice is doing it
   * once. Throws LEASE_LOST when the lease went to another, was buried, or ended otherwise; AMBIGUOUS_LEASE when
   * the event is held through several subscriptions and none is named.
   */
  async finalize(
    eventId: number,
    errors: readonly unknown[] = [],
    { subscription }: FinalizeOptions = {},
  ): Promise<void> {
    const polled = this.#polled.find(eventId, subscription)
    const ending = endingOf(errors)
    if (polled.ended === ending.settlement) return
    const answer = polled.ended ?? (await this.#settlePolled(polled, ending))
    if (answer === 'settled') return
    const state = answer === 'lost' ? 'leased to another worker, waiting or buried' : 'settled otherwise'
    throw new PosthornError('LEASE_LOST', { eventId, state })
  }

  /** An event with where it stands, its deliveries and, if asked for, its log; undefined if there is none. */
  event(id: number, { logs = false }: { logs?: boolean } = {}): Promise<EventDetails | undefined> {
    return getEvent(this.#parts.db, { id, logs: logs ? 'with' : 'without' })
  }

  listEvents(filter?: EventFilter): Promise<EventPage> {
    return listEvents(this.#parts.db, filter)
  }

  deadLetters(filter?: DeadLetterFilter): Promise<DeadLetterPage> {
    return listDeadLetters(this.#parts.db, filter)
  }

  deadLetter(id: string): Promise<DeadLetter | undefined> {
    return getDeadLetter(this.#parts.db, id)
  }

  /** Every worker seen: when last, what it has under way, and whether it has gone silent. */
  workers(): Promise<Worker[]> {
    return listWorkers(this.#parts.db)
  }

  /**
   * Cancels what waits of these events; what is under way is told by heartbeat, and is not tried again. Throws
   * CANCEL_UNFINISHED, to be called again, if some of it kept moving.
   */
  async cancel(eventIds: readonly number[], reason = 'cancelled'): Promise<Cancelled[]> {
    const request = { eventIds, subscription: null, reason: toReason(reason) }
    return cancelEvents(this.#parts.db, this.#parts.admitter, request)
  }

  /** Takes the leased deliveries of an event away from their workers, back to waiting. Failures stay counted. */
  async reset(eventId: number, reason: string): Promise<number> {
    return (await reset(this.#parts.db, { eventId, reason: toReason(reason) })).length
  }

  /** Gives dead letters a fresh budget. */
  redrive(deadLetterIds: readonly string[], by = 'library'): Promise<Redriven[]> {
    return redrive(this.#parts.db, { deadLetterIds, by })
  }

  /** What to do with a lane that stopped at its buried head: try the head again, leave it, or throw it away. */
  async unblock(
    subscription: string,
    orderingKey: string,
    verb: 'retry' | 'skip' | 'discard',
  ): Promise<void> {
    const { db } = this.#parts
    const lane = { subscription: (await this.#subscription(subscription)).no, orderingKey }
    if (verb === 'retry') {
      const letter = await blockingLetter(db, lane)
      if (letter !== undefined) {
        await redrive(db, { deadLetterIds: [letter], by: 'library' })
        return
      }
    } else if ((await unblockLane(db, { ...lane, verb })) !== undefined) return
    throw new PosthornError('NOT_BLOCKED', { key: orderingKey, subscription })
  }

  async #settlePolled(polled: Polled, ending: Ending): Promise<LateAnswer> {
    const { db, buried } = this.#parts
    const { subscriptionNo, ...burial } = polled
    const request = { ...polled.request, ...ending }
    const [rejected] = await settle(db, [request])
    const answer =
      rejected === undefined ? 'settled' : await settleLate(db, { subscription: subscriptionNo, request })
    // A call beside this one may have been told first.
    if (polled.ended !== undefined || answer === 'settled otherwise') return answer
    this.#polled.end(polled, answer === 'lost' ? 'lost' : ending.settlement)
    if (polled.ended === 'buried') buried({ ...burial, reason: ending.reason ?? '' })
    return answer
  }

  async #subscription(name: string): Promise<Subscription> {
    const found = await findSubscription(this.#parts.db, this.#parts.db, name)
    if (found === undefined) throw new PosthornError('NOT_FOUND', { what: 'subscription', id: name })
    return found
  }
}

function endingOf(errors: readonly unknown[]): Ending {
  if (errors.length === 0) return { settlement: 'completed', reason: null }
  const reason = toReason(`finalized with errors: ${errors.map(describeError).join('; ')}`)
  return { settlement: 'buried', reason }
}

/** Kept whatever it holds. */
function toReason(text: string): string {
  return toStorable(String(text), reasonCharsMax)
}
