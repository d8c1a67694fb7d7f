import type { Database } from '../db/database.ts'
import { toDetail } from '../domain/text.ts'
import { PosthornError } from '../errors.ts'
import type { Admitter } from '../operations/admit.ts'
import { cancelEvents } from '../operations/cancel.ts'
import { getDeadLetter } from '../operations/dead-letters.ts'
import { blockingLetter, type LaneRequest, unblockLane } from '../operations/lanes.ts'
import {
  getLane,
  type LaneDetails,
  type LaneFilter,
  type LanePage,
  listLanes,
} from '../operations/list-lanes.ts'
import { redrive } from '../operations/redrive.ts'
import { retryWaiting } from '../operations/retry-waiting.ts'
import type { Deliveries } from './deliveries.ts'

export interface LanesParts {
  readonly db: Database
  readonly admitter: Admitter
  readonly deliveries: Deliveries
}

export type LaneVerb = 'retry' | 'skip' | 'discard'

/** A lane, by the number and the name of its subscription. */
export interface NamedLane extends LaneRequest {
  readonly name: string
}

/** What operators see of lanes, and do to those that do not move. */
export class Lanes {
  readonly #parts: LanesParts

  constructor(parts: LanesParts) {
    this.#parts = parts
  }

  async list(subscription: number, filter?: LaneFilter): Promise<LanePage> {
    const { db, admitter } = this.#parts
    // What has just arrived is in no lane yet.
    await admitter.admit()
    return listLanes(db, subscription, filter)
  }

  /** Undefined if nothing is in it. */
  async get(lane: LaneRequest): Promise<LaneDetails | undefined> {
    const { db, admitter } = this.#parts
    await admitter.admit()
    return getLane(db, lane)
  }

  /**
   * Tries the head of a lane again, leaves it to the dead letters, or throws it away: of a lane that stopped at its
   * buried head, or whose head waits for a retry. Returns the head's event id. Throws NOT_BLOCKED.
   */
  async settleHead(lane: NamedLane, verb: LaneVerb, by: string): Promise<number> {
    if (!Object.hasOwn(this.#act, verb)) {
      const expected = '"retry", "skip" or "discard"'
      throw new PosthornError('BAD_OPTION', { option: 'verb', expected, value: toDetail(verb) })
    }
    const before = await getLane(this.#parts.db, lane)
    if (before?.status === 'blocked' && (await this.#unblock(lane, verb, by))) return before.headEventId
    if (before?.status === 'retrying') {
      const head = { eventId: before.headEventId, subscription: lane.subscription }
      if (await this.#act[verb](head, by)) return head.eventId
    }
    throw new PosthornError('NOT_BLOCKED', { key: lane.orderingKey, subscription: lane.name })
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

  /** Each does nothing, and says so, once the head no longer waits. */
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
