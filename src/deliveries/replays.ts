import type { Database } from '../db/database.ts'
import { checkOptions } from '../domain/known-names.ts'
import {
  planRecover,
  planReplay,
  type RecoverOptions,
  type ReplayOptions,
  type ReplayPlan,
} from '../domain/replay.ts'
import { PosthornError } from '../errors.ts'
import type { SubscriptionCache } from '../subscriptions/subscription-cache.ts'
import { countReplay, type ReplayCount } from './count-replay.ts'
import { createReplay, type NewReplay } from './create-replay.ts'
import {
  abortReplay,
  getReplay,
  listReplays,
  type Replay,
  type ReplayFilter,
  type ReplayPage,
} from './replay-rows.ts'
import { stepReplay } from './step-replay.ts'

export type { Replay, ReplayCount }

export interface ReplayTerms {
  /** Who asks for it. Default `library`. */
  readonly by?: string
  /** What an identical request means: the replay that is running or has completed in the last ten minutes, or another one. */
  readonly identical?: NewReplay['identical']
}

export interface StartedReplay {
  readonly replay: Replay
  /** False: an identical replay was there. */
  readonly isNew: boolean
}

/** Sends deliveries again on request. Upkeep of any process does the work. */
export class Replays {
  readonly #db: Database
  readonly #subscriptions: SubscriptionCache

  constructor({ db, subscriptions }: { readonly db: Database; readonly subscriptions: SubscriptionCache }) {
    this.#db = db
    this.#subscriptions = subscriptions
  }

  async recover(
    subscription: string,
    options: RecoverOptions,
    terms: ReplayTerms = {},
  ): Promise<StartedReplay> {
    return this.#start(subscription, planRecover(options), terms)
  }

  async replay(
    subscription: string,
    options: ReplayOptions,
    terms: ReplayTerms = {},
  ): Promise<StartedReplay> {
    return this.#start(subscription, planReplay(options), terms)
  }

  /** The size of a replay that is not started. */
  async count(subscription: string, plan: ReplayPlan): Promise<ReplayCount> {
    const { no } = await this.#subscriptions.current(subscription)
    const db = this.#db
    return db.transaction((tx) => countReplay(tx, db, { plan, subscription: no }), countSettings)
  }

  /** Throws NOT_FOUND. */
  async get(id: string): Promise<Replay> {
    const replay = await getReplay(this.#db, id)
    if (replay === undefined) throw new PosthornError('NOT_FOUND', { what: 'replay', id })
    return replay
  }

  list(filter?: ReplayFilter): Promise<ReplayPage> {
    return listReplays(this.#db, filter)
  }

  /** Sends no further deliveries. Throws NOT_FOUND. */
  async abort(id: string, by = 'library'): Promise<Replay> {
    await abortReplay(this.#db, { id, by })
    return this.get(id)
  }

  /** The replay is stored by now: an error that invites the caller to try again would send everything twice. */
  async #getStarted(id: string): Promise<Replay> {
    try {
      return await this.get(id)
    } catch (error) {
      if ((error as PosthornError).code !== 'DATABASE_UNAVAILABLE') throw error
      throw new PosthornError('COMMIT_UNKNOWN', {}, { cause: error })
    }
  }

  async #start(subscription: string, plan: ReplayPlan, terms: ReplayTerms): Promise<StartedReplay> {
    checkOptions(terms, { by: true, identical: true }, 'the terms of a replay')
    const { by = 'library', identical = 'same' } = terms
    const { no } = await this.#subscriptions.current(subscription)
    const { id, isNew } = await createReplay(this.#db, { plan, subscription: no, by, identical })
    // The first step runs here, so that a small replay is done at once. If it fails, upkeep continues.
    if (isNew) await stepReplay(this.#db, id).catch(() => undefined)
    return { replay: await this.#getStarted(id), isNew }
  }
}

const countSettings = { readOnly: true, indexPlans: true }
