import type { LeasedDelivery } from '../domain/delivery.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import { isLimited, type Subscription } from '../domain/subscription.ts'
import type { RunningAttempt } from './attempt.ts'
import type { HeldRun } from './held-run.ts'
import type { Want } from './source.ts'

/** Makes an attempt: calls a handler, or sends a webhook. */
export type MakeAttempt = (event: StoredEvent, attempt: RunningAttempt) => unknown

const senderGraceMs = 5_000
export interface Wanting {
  readonly now: number
  readonly suspects: boolean
  /** How many bytes of payloads this share may fetch. */
  readonly charsMax: number
}

/** How many seconds of work to hold in advance. */
const prefetchSeconds = 0.25
const prefetchMax = 4_000
/** Deliveries of one lane that are leased at once: each is settled before the next begins. */
const laneMax = 50
const wantEventsMax = 10_000
/** A payload may have a megabyte. One lease asks for at most this many bytes, judging by recent sizes. */
const wantCharsMax = 16 * 2 ** 20

/**
 * One subscription's share of the runner: the deliveries that it holds, and its slots. It fetches ahead as many as it has
 * lately finished in a quarter of a second, so that a fast handler never waits and a slow one hoards nothing. Whenever it
 * has run dry it asks for twice as many, until it knows how fast the handler is.
 */
export class Share {
  #subscription: Subscription
  /** Until when, monotonic, leases were asked for with another duration, and with which. */
  #lastLease = { askedBefore: Number.NEGATIVE_INFINITY, leaseMs: 0 }
  readonly handler: MakeAttempt
  /** How many attempts this process makes at once. */
  concurrency: number
  /** Attempts whose handler is running. */
  active = 0
  /** Deliveries that can begin now: each without a lane, or the head of its lane. */
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

  /** The most that one lease may bring. */
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

  /** When a lease ends at the earliest that was asked for at this moment. */
  leaseMs(askedAt: number): number {
    const { askedBefore, leaseMs } = this.#lastLease
    const current = this.#subscription.leaseMs
    return askedAt > askedBefore ? current : Math.min(current, leaseMs)
  }

  /** What to ask for; undefined: the share holds enough. */
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

  /** No attempt may begin: the subscription is paused, suspended or retired. */
  get isHeld(): boolean {
    return this.subscription.status !== 'active' && this.subscription.status !== 'draining'
  }

  /** The sender of webhooks has its own deadline. This limit ends attempts that overrun it. */
  get timeLimitMs(): number | null {
    const { via, timeoutMs } = this.subscription
    return via === 'webhook' && timeoutMs !== null ? timeoutMs + senderGraceMs : timeoutMs
  }

  /** True for webhooks: an attempt mostly waits for an answer from elsewhere. */
  get waitsElsewhere(): boolean {
    return this.subscription.via === 'webhook'
  }

  /** A settlement may let others with the same concurrency key go ahead. */
  get gated(): boolean {
    return this.subscription.keyConcurrency !== null
  }

  /** How long the share rests before it leases again. */
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

  /** Removes deliveries that were about to begin and no longer may. Of a lane only the head is removed; the rest waits behind it. */
  takeOut(held: HeldRun, isOut: (delivery: LeasedDelivery) => boolean): LeasedDelivery[] {
    const at = this.#startable.indexOf(held)
    if (at < 0) return []
    const out = (held.lane ? held.waiting.slice(0, 1) : held.waiting).filter(isOut)
    this.#heads -= out.length
    held.waiting.splice(0, held.waiting.length, ...held.waiting.filter((one) => !out.includes(one)))
    if (held.lane && out.length > 0) this.#startable.splice(at, 1)
    return out
  }

  /** Forgets the deliveries of a lost or returned run that have not begun. */
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
      // A share that ran dry was slower than it can be, so its figure only counts if it is higher, or a second has passed.
      this.#ahead = this.#ranDry && elapsed < 1_000 ? Math.max(this.#ahead, warranted) : warranted
      this.#finished = 0
      this.#measuredAt = now
      this.#ranDry = false
    }
    this.#ahead = Math.min(Math.max(this.#ahead, least), prefetchMax)
    return this.#ahead
  }
}
