import { Loop } from '../core/loop.ts'
import type { Database } from '../db/database.ts'
import type { Admitter } from '../engine/admit.ts'
import { hasWork } from '../engine/peek.ts'
import type { SharedPeek } from '../engine/shared-peek.ts'
import { PosthornError } from '../errors.ts'
import { countOffers, type Wish } from './offers.ts'
import { Guest, type Waiting } from './waiting-guest.ts'

export interface WaitingRoomOptions {
  readonly db: Database
  readonly admitter: Admitter
  readonly sharedPeek: SharedPeek
  readonly trouble: (error: unknown, doing: string) => void
}

/** A published event: its tags, and the subscriptions that it goes to. */
export interface Arrival {
  readonly tags: readonly string[] | null
  readonly owed: readonly number[]
}

const lookEveryMs = 1_000
/** The pause before a second look: several lanes often become free together. */
const pauseMs = 20

/**
 * Long polls wait here, without a database connection. A publish of this process wakes one guest that wants the event. For
 * everything else (events of other processes, due retries, free lanes) one statement looks on behalf of all guests: at a
 * notification, and every second.
 */
export class WaitingRoom {
  readonly #options: WaitingRoomOptions
  /** In the order of their arrival. */
  readonly #guests = new Set<Guest>()
  readonly #loop: Loop
  #looking: Promise<void> | undefined
  #lookAgain = false
  #soon: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: WaitingRoomOptions) {
    this.#options = options
    this.#loop = new Loop({
      name: 'looking for deliveries for long polls',
      everyMs: lookEveryMs,
      trouble: options.trouble,
      step: () => this.#lookIfWorthwhile(),
    })
  }

  get workerIds(): string[] {
    return [...this.#guests].map((guest) => guest.waiting.workerId)
  }

  /** The number of guests that have looked and found nothing. */
  get size(): number {
    let asleep = 0
    for (const guest of this.#guests) if (guest.isAsleep) asleep++
    return asleep
  }

  start(): void {
    this.#loop.start()
  }

  /** All guests get an empty answer. */
  async stop(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#soon)
    for (const guest of this.#guests) guest.wake('over')
    await this.#loop.stop()
    await this.#looking
  }

  /**
   * Calls `lease` whenever there may be something, until it leases something or `waitMs` is over. Returns the last result of
   * `lease`.
   */
  async until<Leased>(
    lease: () => Promise<readonly Leased[]>,
    waiting: Waiting,
    waitMs: number,
  ): Promise<readonly Leased[]> {
    const guest = new Guest(waiting)
    const endsAt = performance.now() + waitMs
    // Added before the first look, so that nothing published during the look is missed.
    this.#guests.add(guest)
    try {
      for (let look = 1; ; look++) {
        if (waiting.signal.aborted) return []
        guest.look()
        const leased = await (look === 1 ? lease() : this.#patiently(lease))
        // Guests of a limited subscription are woken one by one: each that finds something wakes the next.
        if (leased.length > 0 && waiting.limited) this.lookSoon()
        const remainingMs = endsAt - performance.now()
        if (leased.length > 0 || remainingMs <= 0 || this.#closed) return leased
        if ((await guest.sleep(remainingMs)) === 'over') return leased
      }
    } finally {
      this.#guests.delete(guest)
      // What woke this guest is now for another guest.
      if (guest.mustLook) this.look()
    }
  }

  /** A guest that waits anyway outlasts a database that is away for a while: it looks again every second. */
  async #patiently<Leased>(lease: () => Promise<readonly Leased[]>): Promise<readonly Leased[]> {
    try {
      return await lease()
    } catch (error) {
      if (!(error instanceof PosthornError) || error.status < 503) throw error
      this.#options.trouble(error, 'leasing for a long poll')
      return []
    }
  }

  /** Wakes one guest for each delivery, those that have waited longest first. */
  published(arrivals: readonly Arrival[]): void {
    if (this.#guests.size === 0) return
    for (const { subscription, tags, deliveries } of alike(arrivals))
      this.#wakeSome(subscription, tags, deliveries)
  }

  /** Looks now, since there may be more deliveries. */
  look(): void {
    if (this.#guests.size === 0 || this.#closed) return
    if (this.#looking === undefined) void this.#lookOnce()
    else this.#lookAgain = true
  }

  /** Looks in a moment: a lane is free, and others may follow. */
  lookSoon(): void {
    if (this.#guests.size === 0 || this.#closed) return
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined
      this.look()
    }, pauseMs)
  }

  /** Wakes guests that sleep; then guests that are looking now and may have missed the delivery. */
  #wakeSome(subscription: number, tags: readonly string[] | null, deliveries: number): void {
    let left = deliveries
    const awake: Guest[] = []
    for (const guest of this.#guests) {
      if (left === 0) return
      if (!guest.wants(subscription, tags)) continue
      if (guest.isAsleep) {
        guest.wake('look')
        left--
      } else if (!guest.mustLook) awake.push(guest)
    }
    for (const guest of awake.slice(0, left)) guest.wake('look')
  }

  async #lookIfWorthwhile(): Promise<boolean> {
    if (this.#guests.size === 0 || this.#looking !== undefined) return false
    const subscriptions = [...new Set([...this.#guests].map((guest) => guest.waiting.subscription))]
    if (hasWork(await this.#options.sharedPeek.look(subscriptions), subscriptions)) await this.#lookOnce()
    return false
  }

  #lookOnce(): Promise<void> {
    this.#looking ??= this.#lookAround().finally(() => {
      this.#looking = undefined
      if (!this.#lookAgain) return
      this.#lookAgain = false
      this.lookSoon()
    })
    return this.#looking
  }

  async #lookAround(): Promise<void> {
    try {
      if (!(await this.#offer())) await this.#admitAndOffer()
    } catch (error) {
      this.#options.trouble(error, 'looking for deliveries for long polls')
    }
  }

  async #admitAndOffer(): Promise<boolean> {
    const { moved } = await this.#options.admitter.admit()
    return moved > 0 && this.#offer()
  }

  /** Wakes as many guests as there are ready deliveries. */
  async #offer(): Promise<boolean> {
    const sleepers = [...this.#guests].filter((guest) => guest.isAsleep)
    const wishes = wishesOf(sleepers)
    if (wishes.length === 0) return false
    const offers = await countOffers(this.#options.db, wishes)
    let found = false
    for (const [place, { subscription, tag, suspects }] of wishes.entries()) {
      let left = offers[place] ?? 0
      for (const guest of sleepers) {
        if (left === 0) break
        if (!guest.isAsleep || guest.waiting.suspects !== suspects) continue
        if (!guest.wants(subscription, tag === null ? null : [tag])) continue
        guest.wake('look')
        found = true
        left = guest.waiting.limited ? 0 : left - 1
      }
    }
    return found
  }
}

interface Alike {
  readonly subscription: number
  readonly tags: readonly string[] | null
  deliveries: number
}

/** Groups arrivals by subscription and tags, so that the guests are searched once per group, not once per event. */
function alike(arrivals: readonly Arrival[]): Iterable<Alike> {
  const kinds = new Map<string, Alike>()
  for (const { tags, owed } of arrivals) {
    for (const subscription of owed) {
      const key = `${subscription} ${tags?.join() ?? ''}`
      const kind = kinds.get(key)
      if (kind === undefined) kinds.set(key, { subscription, tags, deliveries: 1 })
      else kind.deliveries++
    }
  }
  return kinds.values()
}

function wishesOf(guests: readonly Guest[]): Wish[] {
  const wishes = new Map<string, Wish>()
  for (const { waiting } of guests) {
    const { subscription, suspects } = waiting
    for (const tag of waiting.tags ?? [null]) {
      const key = `${subscription} ${suspects} ${tag ?? ''}`
      const deliveriesMax = (wishes.get(key)?.deliveriesMax ?? 0) + 1
      wishes.set(key, { subscription, tag, suspects, deliveriesMax })
    }
  }
  return [...wishes.values()]
}
