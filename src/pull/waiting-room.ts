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

/** An event as it was published, and the subscriptions it is owed to. */
export interface Arrival {
  readonly tags: readonly string[] | null
  readonly owed: readonly number[]
}

const lookEveryMs = 1_000
/** Between two looks, and for lanes that are freed together. */
const pauseMs = 20

/**
 * Where long polls wait without a connection to the database each. A publish in this process wakes one of those
 * it fits. Whatever else there may be (other processes, retries that are due, freed lanes) is looked for once for
 * all of them: at a notification, and every second.
 */
export class WaitingRoom {
  readonly #options: WaitingRoomOptions
  /** In the order in which they came. */
  readonly #guests = new Set<Guest>()
  readonly #loop: Loop
  #looking: Promise<void> | undefined
  #lookAgain = false
  #soon: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: WaitingRoomOptions) {
    this.#options = options
    this.#loop = new Loop({
      name: 'looking for those who wait',
      everyMs: lookEveryMs,
      trouble: options.trouble,
      step: () => this.#lookIfWorthwhile(),
    })
  }

  get workerIds(): string[] {
    return [...this.#guests].map((guest) => guest.waiting.workerId)
  }

  /** How many have looked and found nothing. */
  get size(): number {
    let asleep = 0
    for (const guest of this.#guests) if (guest.isAsleep) asleep++
    return asleep
  }

  start(): void {
    this.#loop.start()
  }

  /** Everybody goes home empty-handed. */
  async stop(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#soon)
    for (const guest of this.#guests) guest.wake('over')
    await this.#loop.stop()
    await this.#looking
  }

  /**
   * Calls `lease` until it gives something, whenever there may be something, for as long as `waitMs`. Gives what
   * `lease` gave last.
   */
  async until<Leased>(
    lease: () => Promise<readonly Leased[]>,
    waiting: Waiting,
    waitMs: number,
  ): Promise<readonly Leased[]> {
    const guest = new Guest(waiting)
    const endsAt = performance.now() + waitMs
    // From here on, so that nothing published while it looks is missed.
    this.#guests.add(guest)
    try {
      for (let look = 1; ; look++) {
        if (waiting.signal.aborted) return []
        guest.look()
        const leased = await (look === 1 ? lease() : this.#patiently(lease))
        // Where there is a limit they are woken one by one: the next one as soon as one has found something.
        if (leased.length > 0 && waiting.limited) this.lookSoon()
        const remainingMs = endsAt - performance.now()
        if (leased.length > 0 || remainingMs <= 0 || this.#closed) return leased
        if ((await guest.sleep(remainingMs)) === 'over') return leased
      }
    } finally {
      this.#guests.delete(guest)
      // It was told of something that it has not looked for: that is for another.
      if (guest.isTold) this.look()
    }
  }

  /** Whoever waits anyway outlives a database that is away for a while: it is looked again every second. */
  async #patiently<Leased>(lease: () => Promise<readonly Leased[]>): Promise<readonly Leased[]> {
    try {
      return await lease()
    } catch (error) {
      if (!(error instanceof PosthornError) || error.status < 503) throw error
      this.#options.trouble(error, 'leasing for those who wait')
      return []
    }
  }

  /** Wakes one guest for each delivery that fits, those who came first first. */
  published(arrivals: readonly Arrival[]): void {
    if (this.#guests.size === 0) return
    for (const { subscription, tags, deliveries } of alike(arrivals))
      this.#wakeSome(subscription, tags, deliveries)
  }

  /** There may be more than there was. */
  look(): void {
    if (this.#guests.size === 0 || this.#closed) return
    if (this.#looking === undefined) void this.#lookOnce()
    else this.#lookAgain = true
  }

  /** The same, in a moment: a lane is free, and others soon. */
  lookSoon(): void {
    if (this.#guests.size === 0 || this.#closed) return
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined
      this.look()
    }, pauseMs)
  }

  /** Those who sleep first; then those who are about to look and may have missed it. */
  #wakeSome(subscription: number, tags: readonly string[] | null, deliveries: number): void {
    let left = deliveries
    const awake: Guest[] = []
    for (const guest of this.#guests) {
      if (left === 0) return
      if (!guest.wants(subscription, tags)) continue
      if (guest.isAsleep) {
        guest.wake('look')
        left--
      } else if (!guest.isTold) awake.push(guest)
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
      this.#options.trouble(error, 'looking for those who wait')
    }
  }

  async #admitAndOffer(): Promise<boolean> {
    const { moved } = await this.#options.admitter.admit()
    return moved > 0 && this.#offer()
  }

  /** Wakes as many as there is something for. */
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

/** Most events of a call are of a few kinds: the guests are gone through once for each kind, not for each event. */
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
