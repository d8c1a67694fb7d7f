import type { Database } from '../db/database.ts'
import { badOption } from '../domain/bad-value.ts'
import type { Admitter } from '../engine/admit.ts'
import { cancelEvents } from '../engine/cancel.ts'
import { PosthornError } from '../errors.ts'
import type { SubscriptionCache } from '../subscriptions/subscription-cache.ts'
import { getDeadLetter } from './dead-letters.ts'
import type { Deliveries } from './deliveries.ts'
import { getLane, type LaneDetails, type LaneFilter, type LanePage, listLanes } from './list-lanes.ts'
import { blockingLetter, type LaneRequest, redrive, retryWaiting, unblockLane } from './repair.ts'

export interface LanesParts {
  readonly db: Database
  readonly admitter: Admitter
  readonly deliveries: Deliveries
  readonly subscriptions: Pick<SubscriptionCache, 'current'>
}

export type LaneVerb = 'retry' | 'skip' | 'discard'

/** What operators see of lanes, and do to those that do not move. */
export class Lanes {
  readonly #parts: LanesParts

  constructor(parts: LanesParts) {
    this.#parts = parts
  }

  /** The lanes of a subscription, by its name. */
  async list(subscription: string, filter?: LaneFilter): Promise<LanePage> {
    const { db, admitter, subscriptions } = this.#parts
    const { no } = await subscriptions.current(subscription)
    // Arrivals are in the inbox, and in no lane, until they are admitted.
    await admitter.admit()
    return listLanes(db, no, filter)
  }

  /** Undefined if nothing is in the lane. */
  async get(subscription: string, orderingKey: string): Promise<LaneDetails | undefined> {
    const { db, admitter, subscriptions } = this.#parts
    const { no } = await subscriptions.current(subscription)
    await admitter.admit()
    return getLane(db, { subscription: no, orderingKey })
  }

  /**
   * Retries, skips or discards the head of a lane that stopped at its buried head, or whose head waits for a retry. Skipping leaves
   * the head among the dead letters. Returns the head's event id. Throws NOT_BLOCKED.
   */
  async settleHead(subscription: string, orderingKey: string, verb: LaneVerb, by: string): Promise<number> {
    if (!Object.hasOwn(this.#act, verb)) {
      throw badOption('verb', '"retry", "skip" or "discard"', verb)
    }
    const { no } = await this.#parts.subscriptions.current(subscription)
    const lane = { subscription: no, orderingKey }
    const before = await getLane(this.#parts.db, lane)
    if (before?.status === 'blocked' && (await this.#unblock(lane, verb, by))) return before.headEventId
    if (before?.status === 'retrying') {
      const head = { eventId: before.headEventId, subscription: no }
      if (await this.#act[verb](head, by)) return head.eventId
    }
    throw new PosthornError('NOT_BLOCKED', { key: orderingKey, subscription })
  }

  async #unblock(lane: LaneRequest, verb: LaneVerb, by: string): Promise<boolean> {
    const { db } = this.#parts
    if (verb !== 'retry') return (await unblockLane(db, { ...lane, verb, by })) !== undefined
    const letter = await blockingLetter(db, lane)
    if (letter === undefined) return false
    if ((await redrive(db, { deadLetterIds: [letter], by })).length > 0) return true
    const { purgedAt } = (await getDeadLetter(db, letter)) ?? { purgedAt: null }
    if (purgedAt === null) return false
    throw new PosthornError('NOT_RETRYABLE', {
      what: 'dead letter',
      id: letter,
      reason: 'its event was purged',
    })
  }

  /** Each returns false, and does nothing, if the head no longer waits. */
  readonly #act: Record<LaneVerb, (head: Head, by: string) => Promise<boolean>> = {
    retry: (head, by) => retryWaiting(this.#parts.db, { ...head, by }),
    skip: (head, by) =>
      this.#parts.deliveries.buryFound({ ...head, reason: `skipped by ${by}`, lane: 'goes on' }),
    discard: async ({ eventId, subscription }, by) => {
      const { db, admitter } = this.#parts
      const request = { eventIds: [eventId], subscription, reason: `discarded by ${by}` }
      return (await cancelEvents(db, admitter, request)).length > 0
    },
  }
}

interface Head {
  readonly eventId: number
  readonly subscription: number
}
