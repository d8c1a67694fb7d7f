import type { LeasedDelivery } from '../domain/delivery.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import { isLimited, type Subscription } from '../domain/subscription.ts'
import type { RunningAttempt } from './attempt.ts'
import type { HeldRun } from './held-run.ts'
import type { Want } from './source.ts'

/** Makes an attempt: a handler, or what takes its place. */
export type MakeAttempt = (event: StoredEvent, attempt: RunningAttempt) => unknown

const senderGraceMs = 5_000
export interface Wanting {
  readonly now: number
  readonly suspects: boolean
  /** This share's part of what may be fetched. */
  readonly charsMax: number
}

/** How many seconds of work to hold in advance. */
const prefetchSeconds = 0.25
const prefetchMax = 4_000
/** Deliveries of one lane that are leased at once: each is settled before the next begins. */
const laneMax = 50
const wantEventsMax = 10_000
/** Payloads may have a megabyte each: what is fetched at once stays within this, by the sizes seen lately. */
const wantCharsMax = 16 * 2 ** 20

/**
 * One subscription's share of the runner: what it holds and may begin. It fetches ahead as much as it has
 * lately worked off in a quarter of a second, so that a fast handler never waits and a slow one hoards nothing.
 * Whenever it has run dry it asks for twice as much, until it knows how fast it is.
 */
export class Share {
  #subscription: Subscription
  /** Until when, monotonic, leases were asked for with another duration, and with which. */
  #lastLease = { askedBefore: Number.NEGATIVE_INFINITY, leaseMs: 0 }
  readonly handler: MakeAttempt
  /** How many at once in this process. */
  concurrency: number
  /** Attempts whose handler is running. */
  active = 0
  /** What can be begun now: an unkeyed delivery, or the head of a lane. */
  readonly #startable: HeldRun[] = []
  #heads = 0
  #ahead: number
  #ranDry = false
  #finished = 0
  #measuredAt = 0
  /** Below this many heads it is time to ask for more. */
  #lowWater = 0
  /** Running means over past leases: deliveries per head, heads per run. */
  #deliveriesPerHead = 1
  #headsPerRun = 20
  #charsPerDelivery = 0
  /** Monotonic: when the share last took a run. */
  #tookAt = Number.NEGATIVE_INFINITY

  /** No lease brings more at once. */
  readonly #batchMax: number

  constructor(
    subscription: Subscription,
    handler: MakeAttempt,
    concurrency: number,
    batchMax: number = wantEventsMax,
  ) {
    this.#subscription = subscription
    this.#batchMax = batchMax
    this.handler = handler
    this.concurrency = concurrency
    this.#ahead = concurrency
  }

  get subscription(): Subscription {
    return this.#subscription
  }

  /** The options of the subscription have changed. */
  refresh(subscription: Subscription): void {
    const { leaseMs } = this.#subscription
    if (leaseMs !== subscription.leaseMs) this.#lastLease = { askedBefore: performance.now(), leaseMs }
    this.#subscription = subscription
  }

  /** How long a lease surely lasts that was asked for at this moment. */
  leaseMs(askedAt: number): number {
    const { askedBefore, leaseMs } = this.#lastLease
    const current = this.#subscription.leaseMs
    return askedAt > askedBefore ? current : Math.min(current, leaseMs)
  }

  /** What to ask for, or undefined while there is enough in hand. */
  want({ now, suspects, charsMax }: Wanting): Want | undefined {
    if (this.isHeld || this.restMs(now) > 0) return undefined
    const limited = this.limited
    const target = limited ? this.concurrency - this.active : this.#prefetch(now)
    this.#lowWater = target / 2
    if (this.#heads > this.#lowWater || this.#heads >= target) return undefined
    const heads = target - this.#heads
    const fitting = limited ? heads : this.#eventsMax(heads, charsMax)
    const eventsMax = Math.min(fitting, this.subscription.queue.batchSize ?? fitting)
    return {
      subscription: this.subscription.no,
      eventsMax,
      runsMax: Math.min(Math.ceil(heads / this.#headsPerRun) + 1, eventsMax),
      laneMax: limited ? 1 : Math.min(laneMax, eventsMax),
      suspects,
    }
  }

  get hungry(): boolean {
    return this.#heads <= this.#lowWater
  }

  get limited(): boolean {
    return isLimited(this.subscription)
  }

  /** Nothing new may begin: it is paused, suspended or gone. */
  get isHeld(): boolean {
    return this.subscription.status !== 'active' && this.subscription.status !== 'draining'
  }

  /** The sender of webhooks has a deadline of its own; this is for when it is not kept. */
  get timeLimitMs(): number | null {
    const { via, timeoutMs } = this.subscription
    return via === 'webhook' && timeoutMs !== null ? timeoutMs + senderGraceMs : timeoutMs
  }

  /** Its attempts wait for an answer from elsewhere, for as long as that takes. */
  get waitsElsewhere(): boolean {
    return this.subscription.via === 'webhook'
  }

  /** A settlement may let others with the same concurrency key go ahead. */
  get gated(): boolean {
    return this.subscription.keyConcurrency !== null
  }

  /** How long the share rests until it takes more. */
  restMs(now: number): number {
    const { processingInterval } = this.subscription.queue
    return processingInterval === null ? 0 : this.#tookAt + processingInterval - now
  }

  /** Whether this many deliveries would begin at once. */
  isIdle(deliveries: number): boolean {
    const { processingInterval, batchSize } = this.subscription.queue
    if ((processingInterval ?? 0) > 0 || deliveries > (batchSize ?? deliveries)) return false
    return !this.limited && !this.isHeld && this.active + this.#heads + deliveries <= this.concurrency
  }

  take(held: HeldRun): void {
    this.#tookAt = held.leasedAt
    const heads = held.lane ? 1 : held.waiting.length
    for (const { event } of held.waiting) {
      this.#charsPerDelivery += (event.payloadText.length - this.#charsPerDelivery) / 8
    }
    this.#deliveriesPerHead += (held.waiting.length / heads - this.#deliveriesPerHead) / 8
    this.#headsPerRun += (heads - this.#headsPerRun) / 8
    this.offer(held)
  }

  /** A run whose next delivery may begin. */
  offer(held: HeldRun): void {
    if (held.waiting.length === 0) return
    this.#startable.push(held)
    this.#heads += held.lane ? 1 : held.waiting.length
  }

  /** The next delivery to begin, if a slot is free. */
  next(): { held: HeldRun; delivery: LeasedDelivery } | undefined {
    if (this.active >= this.concurrency) return undefined
    for (;;) {
      const held = this.#startable[0]
      if (held === undefined) return undefined
      const delivery = held.waiting.shift()
      if (delivery === undefined) {
        this.#startable.shift()
        continue
      }
      this.#heads--
      if (held.lane || held.waiting.length === 0) this.#startable.shift()
      return { held, delivery }
    }
  }

  /** Takes away those that could begin now and are not to. Of a lane that is the head alone, and the rest waits for it. */
  takeOut(held: HeldRun, isOut: (delivery: LeasedDelivery) => boolean): LeasedDelivery[] {
    const at = this.#startable.indexOf(held)
    if (at < 0) return []
    const out = (held.lane ? held.waiting.slice(0, 1) : held.waiting).filter(isOut)
    this.#heads -= out.length
    held.waiting.splice(0, held.waiting.length, ...held.waiting.filter((one) => !out.includes(one)))
    if (held.lane && out.length > 0) this.#startable.splice(at, 1)
    return out
  }

  /** Forgets what has not begun of a run that is lost or handed back. */
  drop(held: HeldRun): void {
    const at = this.#startable.indexOf(held)
    if (at >= 0) {
      this.#startable.splice(at, 1)
      this.#heads -= held.lane ? 1 : held.waiting.length
    }
    held.waiting.length = 0
  }

  finished(): void {
    this.#finished++
  }

  #eventsMax(heads: number, charsMax: number): number {
    const fitting = Math.ceil(Math.min(wantCharsMax, charsMax) / (this.#charsPerDelivery + 1))
    return Math.min(Math.ceil(heads * this.#deliveriesPerHead), this.#batchMax, fitting)
  }

  #prefetch(now: number): number {
    const least = this.concurrency * 2
    if (this.#heads === 0 && this.#finished > 0) {
      this.#ahead *= 2
      this.#ranDry = true
    }
    const elapsed = now - this.#measuredAt
    if (elapsed > 100) {
      const warranted = ((this.#finished * 1000) / elapsed) * prefetchSeconds
      // Having been short of work says little about the speed, unless that was long ago.
      this.#ahead = this.#ranDry && elapsed < 1_000 ? Math.max(this.#ahead, warranted) : warranted
      this.#finished = 0
      this.#measuredAt = now
      this.#ranDry = false
    }
    this.#ahead = Math.min(Math.max(this.#ahead, least), prefetchMax)
    return this.#ahead
  }
}
