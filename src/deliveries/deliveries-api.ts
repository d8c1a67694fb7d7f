import type { Core } from '../core/core.ts'
import type { RecoverOptions, ReplayOptions } from '../domain/replay.ts'
import { readReason } from '../domain/text.ts'
import type { Admitter } from '../engine/admit.ts'
import type { Burial } from '../observe/hub-events.ts'
import type { SubscriptionCache } from '../subscriptions/subscription-cache.ts'
import * as letters from './dead-letters.ts'
import { Deliveries } from './deliveries.ts'
import { Lanes, type LaneVerb } from './lanes.ts'
import { type Redriven, redrive } from './repair.ts'
import { discardOne, type RedrivenSome, redriveOne, redriveSome } from './repair-dead-letters.ts'
import { type Replay, Replays, type ReplayTerms, type StartedReplay } from './replays.ts'
import { reset } from './reset.ts'

const redrivenMax = 1_000

/** What a hub tells of deliveries, lanes and dead letters, and what operators can do about them. */
export interface DeliveriesApi {
  /** Single deliveries: what became of them, and what an operator may do about it. */
  readonly deliveries: Deliveries
  readonly lanes: Lanes
  /** Deliveries that are made once more on demand. */
  readonly replays: Replays
  deadLetters(filter?: letters.DeadLetterFilter): Promise<letters.DeadLetterPage>
  /** The same without snapshots, which may have a megabyte each. */
  deadLetterHeads(filter?: letters.DeadLetterFilter): Promise<letters.DeadLetterPage<letters.DeadLetterHead>>
  deadLetter(id: string): Promise<letters.DeadLetter | undefined>
  /** Gives dead letters a fresh budget. */
  redrive(deadLetterIds: readonly string[], by?: string): Promise<Redriven[]>
  /** The same for one dead letter: throws NOT_FOUND, ALREADY_RETRIED or, if its subscription is gone, NOT_RETRYABLE. */
  retryDeadLetter(id: string, by?: string): Promise<readonly Redriven[]>
  /** The same for up to 1,000 that match, in the order of their events. The filter must leave something out. */
  retryDeadLetters(filter: letters.DeadLetterFilter, by?: string): Promise<RedrivenSome>
  /** Throws a dead letter away for good; a lane that stopped at it goes on. */
  discardDeadLetter(id: string, by?: string): Promise<void>
  /** Takes the leased deliveries of an event away from their workers, back to waiting. Failures stay counted. */
  reset(eventId: number, reason: string): Promise<number>
  /** Gives all dead letters of a subscription since a moment a fresh budget, as work that outlives this process. */
  recover(subscription: string, options: RecoverOptions, terms?: ReplayTerms): Promise<StartedReplay>
  /** Sends events to a subscription once more, whatever became of them, as work that outlives this process. */
  replay(subscription: string, options: ReplayOptions, terms?: ReplayTerms): Promise<StartedReplay>
  getReplay(id: string): Promise<Replay>
  abortReplay(id: string): Promise<Replay>
  /**
   * For a lane that stopped at its buried head, or whose head waits for a retry: tries the head again, leaves the head to
   * the dead letters, or throws it away.
   */
  unblock(subscription: string, orderingKey: string, verb: LaneVerb, by?: string): Promise<void>
}

export interface DeliveriesNeeds {
  readonly admitter: Admitter
  readonly subscriptions: SubscriptionCache
  readonly buried: (burial: Burial) => void
}

export function createDeliveriesApi({ db }: Pick<Core, 'db'>, needs: DeliveriesNeeds): DeliveriesApi {
  const { admitter, subscriptions, buried } = needs
  const deliveries = new Deliveries({ db, admitter, buried })
  const lanes = new Lanes({ db, admitter, deliveries, subscriptions })
  const replays = new Replays({ db, subscriptions })
  return {
    deliveries,
    lanes,
    replays,
    deadLetters: (filter) => letters.listDeadLetters(db, filter),
    deadLetterHeads: (filter) => letters.listDeadLetterHeads(db, filter),
    deadLetter: (id) => letters.getDeadLetter(db, id),
    redrive: (deadLetterIds, by = 'library') => redrive(db, { deadLetterIds, by }),
    retryDeadLetter: (id, by = 'library') => redriveOne(db, id, by),
    retryDeadLetters: (filter, by = 'library') => redriveSome(db, filter, { by, max: redrivenMax }),
    discardDeadLetter: (id, by = 'library') => discardOne(db, id, by),
    reset: async (eventId, reason) => (await reset(db, { eventId, reason: readReason(reason) })).length,
    recover: (subscription, options, terms) => replays.recover(subscription, options, terms),
    replay: (subscription, options, terms) => replays.replay(subscription, options, terms),
    getReplay: (id) => replays.get(id),
    abortReplay: (id) => replays.abort(id),
    unblock: async (subscription, orderingKey, verb, by = 'library') => {
      await lanes.settleHead(subscription, orderingKey, verb, by)
    },
  }
}
