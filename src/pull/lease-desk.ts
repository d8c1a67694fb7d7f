import { Batcher } from '../core/batcher.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import type { Subscription } from '../domain/subscription.ts'
import { type EachTerms, leaseEach, type Taker } from '../engine/lease-each.ts'
import { type LeaseTokens, newToken } from '../engine/lease-tokens.ts'
import { type LookParts, untilNothingWaits } from './lease-oldest.ts'

export interface DeskParts extends LookParts {
  readonly tokens: LeaseTokens
}

/** What one worker asks for. Workers that ask alike, each for one delivery, share a statement. */
export interface DeskRequest extends Omit<EachTerms, 'subscription'> {
  readonly subscription: Subscription
  readonly worker: number
}

type Leased = LeasedRun | undefined

/** Payloads have up to a megabyte each. */
const takersMax = 16
const statementsMax = 2

/** Serves workers that ask for one delivery each: those that ask alike while a statement is under way share the next one. */
export class LeaseDesk {
  readonly #parts: DeskParts
  readonly #queues = new Map<string, DeskQueue>()

  constructor(parts: DeskParts) {
    this.#parts = parts
  }

  /** Undefined: nothing waits. */
  async lease(request: DeskRequest): Promise<Leased> {
    const { subscription, tags, leaseMs, begins, suspects } = request
    const key = JSON.stringify([subscription.no, tags, leaseMs, begins, suspects])
    const queue = this.#queues.get(key) ?? new DeskQueue(this.#parts, request)
    this.#queues.set(key, queue)
    try {
      return await queue.lease(request.worker)
    } finally {
      if (queue.isIdle) this.#queues.delete(key)
    }
  }
}

/** Workers that ask alike. */
class DeskQueue {
  readonly #parts: DeskParts
  readonly #wanted: DeskRequest
  readonly #batcher: Batcher<Taker, Leased>
  /** The average number of deliveries that a run gives: it says how many runs to look at. */
  #deliveriesPerRun = 1
  #asking = 0

  constructor(parts: DeskParts, wanted: DeskRequest) {
    this.#parts = parts
    this.#wanted = wanted
    const flush = (takers: readonly Taker[]) => this.#serve(takers)
    this.#batcher = new Batcher({ flush, itemsMax: takersMax, flushesMax: statementsMax })
  }

  get isIdle(): boolean {
    return this.#asking === 0
  }

  async lease(worker: number): Promise<Leased> {
    this.#asking++
    try {
      return await this.#batcher.add({ worker, token: newToken() })
    } finally {
      this.#asking--
    }
  }

  /** Who finds nothing at first looks again without holding up those that come next. */
  async #serve(takers: readonly Taker[]): Promise<(Leased | Promise<Leased>)[]> {
    const { admitter } = this.#parts
    if (admitter.isDue()) await admitter.admit()
    const leased = await this.#take(takers)
    const left = takers.filter((_, place) => leased[place] === undefined)
    if (left.length === 0) return [...leased]
    const later = this.#lookAgain(left)
    return takers.map((taker, place) => leased[place] ?? later.then((found) => found.get(taker)))
  }

  async #lookAgain(takers: readonly Taker[]): Promise<Map<Taker, LeasedRun>> {
    const found = new Map<Taker, LeasedRun>()
    await untilNothingWaits(this.#parts, this.#wanted, async () => {
      const left = takers.filter((taker) => !found.has(taker))
      const leased = await this.#take(left)
      for (const [place, run] of leased.entries()) if (run !== undefined) found.set(left[place] as Taker, run)
      return found.size === takers.length
    })
    return found
  }

  async #take(takers: readonly Taker[]): Promise<readonly Leased[]> {
    const { db, tokens } = this.#parts
    const runsMax = Math.min(takers.length, Math.ceil(takers.length / this.#deliveriesPerRun) + 1)
    const terms = { ...this.#wanted, subscription: this.#wanted.subscription.no }
    try {
      const { leased, offers } = await leaseEach(db, terms, { takers, runsMax })
      this.#learn(offers)
      return leased
    } catch (error) {
      for (const { worker, token } of takers) tokens.lost(worker, token)
      throw error
    }
  }

  #learn(offers: readonly number[]): void {
    for (const deliveries of offers) this.#deliveriesPerRun += (deliveries - this.#deliveriesPerRun) / 4
  }
}
