import { EventEmitter } from 'node:events'
import type { Database } from './db/database.ts'
import type { Catalogue, EventToPublish } from './domain/catalogue.ts'
import type { EventInput } from './domain/event.ts'
import type { StoredEvent } from './domain/stored-event.ts'
import { defineSubscription, type Subscription, type SubscriptionOptions } from './domain/subscription.ts'
import { PosthornError } from './errors.ts'
import { newToken } from './lease-source.ts'
import type { Metrics } from './observe/metrics.ts'
import type { Admitter } from './operations/admit.ts'
import { type Cancelled, cancel } from './operations/cancel.ts'
import {
  type DeadLetter,
  type DeadLetterFilter,
  type DeadLetterPage,
  getDeadLetter,
  listDeadLetters,
} from './operations/dead-letters.ts'
import { type EventDetails, getEvent } from './operations/events.ts'
import { blockingLetter, unblockLane } from './operations/lanes.ts'
import { lease } from './operations/lease.ts'
import { type EventFilter, type EventPage, listEvents } from './operations/list-events.ts'
import { type Redriven, redrive } from './operations/redrive.ts'
import { reset } from './operations/reset.ts'
import { type SettleRequest, settle } from './operations/settle.ts'
import { settleLate } from './operations/settle-late.ts'
import {
  deleteSubscription,
  findSubscription,
  listSubscriptions,
  upsertSubscription,
} from './operations/subscriptions.ts'
import { listWorkers, type Worker } from './operations/workers.ts'
import type { PublishedEvent, Publisher, PublishOptions } from './publisher.ts'

/** What a hub tells whoever listens on `hub.events`. */
export interface HubEvents {
  published: [events: readonly { id: number; owed: readonly number[] }[]]
  settled: [delivery: { subscription: string; eventId: number; settlement: string; executionMs: number }]
  buried: [delivery: { subscription: string; eventId: number; reason: string }]
  lost: [delivery: { subscription: string; eventId: number; why: string }]
}

export interface HubParts {
  readonly db: Database
  readonly publisher: Publisher
  readonly admitter: Admitter
  readonly metrics: Metrics
  readonly worker: () => Promise<number>
}

export interface PollOptions {
  /** Which pull subscription. Default: the work queue, where every event with tags goes. */
  readonly subscription?: string
  /** Only events with any of these tags. */
  readonly tags?: readonly string[]
  readonly leaseMs?: number
}

/** Leases that `finalize` can settle; far more than anybody works on at once. */
const polledMax = 10_000

interface PolledLease {
  readonly request: SettleRequest
  readonly subscription: number
}

/** The operations bound to a database: what library users see, and later the routes. */
export class Hub<C extends Catalogue = Catalogue> {
  readonly events = new EventEmitter<HubEvents>()
  readonly metrics: Metrics
  readonly #parts: HubParts
  /** What `poll` has leased in this hub and `finalize` will settle. */
  readonly #polled = new Map<number, PolledLease>()

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

  /** Leases the oldest event that waits, or undefined. This hub remembers the lease for `finalize`. */
  async poll(options: PollOptions = {}): Promise<StoredEvent | undefined> {
    const subscription = await this.#subscription(options.subscription ?? 'work')
    const request = {
      wants: [
        {
          subscription: subscription.no,
          eventsMax: 1,
          runsMax: 1,
          laneMax: 1,
          suspects: true,
          leaseMs: options.leaseMs ?? subscription.leaseMs,
          limited: subscription.maxConcurrency !== null || subscription.ratePerSecond !== null,
        },
      ],
      token: newToken(),
      worker: await this.#parts.worker(),
      begins: 'granted',
      tags: options.tags ?? null,
    } as const
    if (this.#parts.admitter.isDue()) await this.#parts.admitter.admit()
    let [run] = await lease(this.#parts.db, request)
    if (run === undefined && (await this.#parts.admitter.admit()).moved > 0) {
      ;[run] = await lease(this.#parts.db, request)
    }
    const delivery = run?.deliveries[0]
    if (run === undefined || delivery === undefined) return undefined
    this.#remember(delivery.event.id, {
      subscription: subscription.no,
      request: {
        runId: run.id,
        token: run.token,
        eventId: delivery.event.id,
        settlement: 'completed',
        afterMs: null,
        failures: delivery.failures,
        reason: null,
        startedAfterMs: null,
        executionMs: null,
        statusCode: null,
      },
    })
    return delivery.event
  }

  /**
   * Ends what `poll` leased: completed, or with errors for good, as a dead letter. Doing it twice is doing it
   * once; throws LEASE_LOST when the lease went to another.
   */
  async finalize(eventId: number, errors: readonly unknown[] = []): Promise<void> {
    const polled = this.#polled.get(eventId)
    if (polled === undefined)
      throw new PosthornError('LEASE_LOST', { eventId, state: 'not leased by this hub' })
    const request: SettleRequest =
      errors.length === 0
        ? polled.request
        : {
            ...polled.request,
            settlement: 'buried',
            reason: `finalized with errors: ${errors.map(String).join('; ')}`,
          }
    const { db } = this.#parts
    const [rejected] = await settle(db, [request])
    if (rejected === undefined) return
    if ((await settleLate(db, { subscription: polled.subscription, request })) === 'lost') {
      throw new PosthornError('LEASE_LOST', { eventId, state: 'leased to another worker, or settled' })
    }
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

  /** Cancels what waits of these events; what is under way is told by heartbeat. */
  async cancel(eventIds: readonly number[], reason = 'cancelled'): Promise<Cancelled[]> {
    await this.#admitAll()
    return cancel(this.#parts.db, { eventIds, subscription: null, reason })
  }

  /** Takes the leased deliveries of an event away from their workers, back to waiting. Failures stay counted. */
  async reset(eventId: number, reason: string): Promise<number> {
    return (await reset(this.#parts.db, { eventId, reason })).length
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

  /** A later lease of the same event takes the place of an earlier one; the oldest are forgotten. */
  #remember(eventId: number, polled: PolledLease): void {
    this.#polled.delete(eventId)
    this.#polled.set(eventId, polled)
    const [oldest] = this.#polled.keys()
    if (this.#polled.size > polledMax && oldest !== undefined) this.#polled.delete(oldest)
  }

  async #subscription(name: string): Promise<Subscription> {
    const found = await findSubscription(this.#parts.db, this.#parts.db, name)
    if (found === undefined) throw new PosthornError('NOT_FOUND', { what: 'subscription', id: name })
    return found
  }

  /** Until nothing visible waits at the door. */
  async #admitAll(): Promise<void> {
    for (;;) {
      const { busy, drained } = await this.#parts.admitter.admit()
      if (drained && !busy) return
    }
  }
}
