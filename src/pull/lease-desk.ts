import { Batcher } from '../core/batcher.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import type { Subscription } from '../domain/subscription.ts'
import { type EachTerms, leaseEach, type Taker } from '../engine/lease-each.ts'
import { type LeaseTokens, newToken } from '../engine/lease-tokens.ts'
import type { GivenLeases } from './given-leases.ts'
import { type LookParts, untilNothingWaits } from './lease-oldest.ts'

export interface DeskParts extends LookParts {
  readonly tokens: LeaseTokens
  readonly given: GivenLeases
}

/** What one worker asks for. Workers that ask alike, each for one delivery, share a statement. */
export interface DeskRequest extends Omit<EachTerms, 'subscription'> {
  readonly subscription: Subscription
  readonly worker: number
  readonly workerId: string
  /** Aborted when nobody waits for the answer. */
  readonly signal: AbortSignal
}

type Leased = LeasedRun | undefined
type Caller = Taker & Pick<DeskRequest, 'workerId' | 'signal'>

/** Payloads have up to a megabyte each. */
const takersMax = 16
const statementsMax = 2

/** Serves workers that ask for one delivery each: those that ask alike while a statement is under way share the next one. */
export class LeaseDesk {
  readonly #parts: DeskParts
  readonly #queues = new Map<string, DeskQueue>()
  /** The average number of deliveries that a run gives, by subscription: it says how many runs to look at. */
  readonly #deliveriesPerRun = new Map<number, number>()

  constructor(parts: DeskParts) {
    this.#parts = parts
  }

  /** Undefined: nothing waits. */
  async lease(request: DeskRequest): Promise<Leased> {
    const { subscription, tags, leaseMs, begins, suspects } = request
    const key = JSON.stringify([subscription.no, tags, leaseMs, begins, suspects])
    const queue = this.#queues.get(key) ?? new DeskQueue(this.#parts, request, this.#deliveriesPerRun)
    this.#queues.set(key, queue)
    try {
      return await queue.lease(request)
    } finally {
      if (queue.isIdle) this.#queues.delete(key)
    }
  }
}

/** Workers that ask alike. */
class DeskQueue {
  readonly #parts: DeskParts
  readonly #subscription: Subscription
  readonly #terms: EachTerms
  readonly #deliveriesPerRun: Map<number, number>
  readonly #batcher: Batcher<Caller, Leased>
  #asking = 0

  constructor(
    parts: DeskParts,
    { subscription, tags, leaseMs, begins, suspects }: DeskRequest,
    deliveriesPerRun: Map<number, number>,
  ) {
    this.#parts = parts
    this.#subscription = subscription
    this.#terms = { subscription: subscription.no, tags, leaseMs, begins, suspects }
    this.#deliveriesPerRun = deliveriesPerRun
    const flush = (callers: readonly Caller[]) => this.#serve(callers)
    this.#batcher = new Batcher({ flush, itemsMax: takersMax, flushesMax: statementsMax })
  }

  get isIdle(): boolean {
    return this.#asking === 0
  }

  async lease({ worker, workerId, signal }: DeskRequest): Promise<Leased> {
    this.#asking++
    try {
      return await this.#batcher.add({ worker, workerId, signal, token: newToken() })
    } finally {
      this.#asking--
    }
  }

  /** Callers that get nothing look again, and do not hold up the callers that come next. */
  async #serve(callers: readonly Caller[]): Promise<(Leased | Promise<Leased>)[]> {
    const { admitter } = this.#parts
    if (admitter.isDue()) await admitter.admit()
    const average = this.#deliveriesPerRun.get(this.#terms.subscription) ?? 1
    const leased = await this.#take(callers, Math.ceil(callers.length / average) + 1)
    const left = callers.filter((_, place) => leased[place] === undefined)
    const later = left.length === 0 ? undefined : this.#lookAgain(left)
    return callers.map((caller, place) => leased[place] ?? later?.get(caller))
  }

  /** Each caller is answered as soon as there is something for it. An error is for those that have nothing yet. */
  #lookAgain(callers: readonly Caller[]): Map<Caller, Promise<Leased>> {
    const open = new Map<Caller, { resolve(leased: Leased): void; reject(error: unknown): void }>()
    const answers = new Map(
      callers.map((caller) => [
        caller,
        new Promise<Leased>((resolve, reject) => open.set(caller, { resolve, reject })),
      ]),
    )
    const takeMore = async () => {
      const asking = [...open.keys()]
      const leased = await this.#take(asking, asking.length)
      for (const [place, caller] of asking.entries()) {
        if (leased[place] === undefined && !caller.signal.aborted) continue
        open.get(caller)?.resolve(leased[place])
        open.delete(caller)
      }
      if (open.size === 0) return 'enough'
      return open.size < asking.length ? 'some' : 'nothing'
    }
    const wanted = { ...this.#terms, subscription: this.#subscription }
    untilNothingWaits(this.#parts, wanted, takeMore).then(
      () => {
        for (const { resolve } of open.values()) resolve(undefined)
      },
      (error: unknown) => {
        for (const { reject } of open.values()) reject(error)
      },
    )
    return answers
  }

  /** A caller whose client is gone gets nothing. */
  async #take(callers: readonly Caller[], runsMax: number): Promise<Leased[]> {
    const { db, tokens, given } = this.#parts
    const takers = callers.filter(({ signal }) => !signal.aborted)
    if (takers.length === 0) return callers.map(() => undefined)
    try {
      const { leases, offers } = await leaseEach(db, this.#terms, { takers, runsMax })
      this.#learn(offers)
      const found = new Map(takers.map((taker, place) => [taker, leases[place]]))
      return callers.map((caller) => {
        const lease = found.get(caller)
        if (lease?.isOnlyDelivery) given.remember(caller.workerId, lease.run)
        return lease?.run
      })
    } catch (error) {
      for (const { worker, token } of takers) tokens.lost(worker, token)
      throw error
    }
  }

  #learn(offers: readonly number[]): void {
    const { subscription } = this.#terms
    let average = this.#deliveriesPerRun.get(subscription) ?? 1
    for (const deliveries of offers) average += (deliveries - average) / 4
    this.#deliveriesPerRun.set(subscription, average)
  }
}
