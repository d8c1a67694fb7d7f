import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import { decideSettlement, type Outcome } from '../domain/settlement.ts'
import type { Subscription } from '../domain/subscription.ts'
import { type AttemptHost, RunningAttempt, succeeded } from './attempt.ts'
import { HandBack } from './hand-back.ts'
import { LeaseRenewer, tickMs } from './lease-renewer.ts'
import { type EndedAttempt, Settlers } from './settler.ts'
import { databaseNowMs, type HeldRun, type Share } from './share.ts'
import type { SettleAnswer, SettleDelivery, Source, Want } from './source.ts'
import { Suspects } from './suspects.ts'
import { Wakeup, type WakeupOptions } from './wakeup.ts'

export interface RunnerOptions extends WakeupOptions {
  readonly source: Source
  readonly observe: RunnerObserver
}

/** What the runner tells; it decides nothing by the answers. */
export interface RunnerObserver {
  /** It is durable what became of the delivery. */
  settled(settled: SettleDelivery): void
  lost(delivery: LeasedDelivery, why: string): void
  trouble(error: unknown, doing: string): void
}

/** Attempts that have ended and are not yet settled: beyond this nothing new begins, so a slow database slows us. */
const unsettledMax = 10_000
/** Payloads that may be fetched at once, over all shares. */
const charsMax = 256 * 2 ** 20
const troubleDelayMsMax = 2_000
/** How long a stop tries to hand back what did not end: after that the leases simply run out. */
const abandonMs = 10_000
/** How long it waits for transactions that handlers have given to `completeIn`: whoever was aborted ends its own by then. */
const abandonOpenMs = 1_000

/**
 * The one loop behind every way to consume: lease ahead, begin what may begin, settle what is done, keep the
 * leases alive. It sees nothing but its source, so it runs as well in a remote process.
 */
export class Runner {
  readonly #options: RunnerOptions
  readonly #source: Source
  readonly #shares = new Map<number, Share>()
  readonly #held = new Set<HeldRun>()
  readonly #attempts = new Set<RunningAttempt>()
  /**
   * Attempts whose settlement may have to wait and is not yet stored: they complete in a transaction of their handler, which
   * may hold them locked, or settle alone.
   */
  readonly #completing = new Set<RunningAttempt>()
  readonly #host: AttemptHost
  readonly #wakeup: Wakeup
  readonly #settlers: Settlers
  readonly #handBack: HandBack
  readonly #renewer: LeaseRenewer
  readonly #suspects = new Suspects()
  #unsettled = 0
  #state: 'idle' | 'running' | 'stopping' = 'idle'
  #loop: Promise<void> | undefined
  #ticker: NodeJS.Timeout | undefined
  #drained: (() => void) | undefined

  constructor(options: RunnerOptions) {
    this.#options = options
    this.#source = options.source
    this.#host = {
      source: options.source,
      moving: (attempt) => void this.#completing.add(attempt),
      moved: (attempt, run) => this.#moved(attempt, run),
      withoutRenewing: (held, work) => this.#renewer.withoutRenewing(held, work),
    }
    this.#wakeup = new Wakeup(options)
    this.#handBack = new HandBack({
      source: options.source,
      trouble: (error, doing) => options.observe.trouble(error, doing),
    })
    this.#settlers = new Settlers({
      source: options.source,
      settled: (ended, answer) => this.#settled(ended, answer),
      done: () => this.#pump(),
      trouble: (error) => this.#trouble(error, 'settling'),
      isOver: () => this.#state === 'idle',
    })
    this.#renewer = new LeaseRenewer({
      source: options.source,
      held: this.#held,
      attempts: this.#attempts,
      leaseMs: (held, askedAt) => this.#shareOf(held).leaseMs(askedAt),
      lose: (held, why) => this.#lose(held, why),
      trouble: (error) => options.observe.trouble(error, 'renewing leases'),
    })
  }

  add(share: Share): void {
    this.#shares.set(share.subscription.no, share)
    this.wake()
  }

  start(): void {
    if (this.#state !== 'idle') return
    this.#state = 'running'
    this.#loop = this.#leaseLoop()
  }

  /** How many attempts are under way. */
  get underWay(): number {
    return this.#attempts.size
  }

  /** Subscriptions of which it holds deliveries that have not begun, by number. */
  get waitingFor(): number[] {
    const waiting = [...this.#held].filter((held) => held.waiting.length > 0)
    return [...new Set(waiting.map((held) => held.run.subscription))]
  }

  /**
   * Tells which leases are of runs that it holds or has not yet settled, at the moment of the call. An attempt that moves to a
   * run of its own may be in either run, as an answer or a server may be lost: it makes every run with its token known.
   */
  knownLeases(): (lease: { readonly runId: number; readonly token: number }) => boolean {
    const runs = new Set([...this.#held].map(({ run }) => `${run.id} ${run.token}`))
    // A lane is never divided: its delivery stays where it is.
    const moving = [...this.#completing].filter(({ held }) => !held.lane)
    const tokens = new Set(moving.map(({ held }) => held.run.token))
    return ({ runId, token }) => tokens.has(token) || runs.has(`${runId} ${token}`)
  }

  /** Deliveries in hand that have not begun. */
  get unbegun(): LeasedDelivery[] {
    return [...this.#held].flatMap((held) => held.waiting)
  }

  /** There may be something to lease. */
  wake(): void {
    this.#wakeup.wake()
  }

  /**
   * Begins nothing more, gives what is under way `graceMs` to end, aborts the rest, and hands every lease
   * back. What had not ended is not counted as an attempt.
   */
  async stop(graceMs: number): Promise<void> {
    if (this.#state === 'idle') return
    if (this.#state === 'running') {
      this.#state = 'stopping'
      this.#wakeup.wake()
    }
    await this.#loop
    const [idle, busy] = partition([...this.#held], (held) => held.underWay === 0)
    const unbegun = busy.flatMap((held) => held.waiting)
    for (const held of this.#held) this.#shareOf(held).drop(held)
    // Others can have at once what has not begun, as far as it can be told apart.
    await Promise.all([
      this.#handBack.runs(idle.map((held) => held.run)),
      this.#handBack.some(unbegun),
      this.#untilSettled(graceMs),
    ])
    await this.#abandon()
    await this.#handBack.runs(busy.map((held) => held.run))
    this.#held.clear()
    this.#completing.clear()
    this.#suspects.clear()
    this.#stopTicking()
    this.#wakeup.stop()
    this.#state = 'idle'
  }

  async #leaseLoop(): Promise<void> {
    let troubles = 0
    while (this.#state === 'running') {
      try {
        const again = await this.#leaseOnce()
        troubles = 0
        if (!again) await this.#wakeup.wait(() => this.#peek())
      } catch (error) {
        this.#trouble(error, 'leasing')
        await this.#wakeup.pause(Math.min(100 * 2 ** troubles++, troubleDelayMsMax))
      }
    }
  }

  #trouble(error: unknown, doing: string): void {
    this.#options.observe.trouble(error, doing)
    this.#renewer.doubt()
  }

  /** Leases what the shares want. Whether there may be more at once. */
  async #leaseOnce(): Promise<boolean> {
    const askedAt = performance.now()
    const wants = this.#wants(askedAt)
    if (wants.length === 0) return false
    this.#wakeup.looking()
    const { runs, again, askedAt: askedBefore } = await this.#source.lease(wants)
    this.#hold(runs, askedBefore ?? askedAt)
    if (runs.length === 0) {
      this.#wakeup.foundNothing()
      if (again) await this.#wakeup.pause(5)
      return again
    }
    const all = wants.every((want) => isBelow(want, runs))
    this.#wakeup.found(all && !again)
    return again || !all
  }

  /** Which subscriptions would begin this many deliveries at once, if they were given them. */
  idle(deliveries: number): Subscription[] {
    if (this.#state !== 'running' || !this.#wakeup.isIdle) return []
    return [...this.#shares.values()].filter((share) => share.isIdle(deliveries)).map((s) => s.subscription)
  }

  /** Runs that were leased for us as they were published, asked for at `askedAt`. */
  async take(runs: readonly LeasedRun[], askedAt: number): Promise<void> {
    if (this.#state === 'running') this.#hold(runs, askedAt)
    else await this.#handBack.runs(runs)
  }

  /** One that was leased although its subscription is suspended. */
  async probe(runs: readonly LeasedRun[], askedAt: number): Promise<void> {
    const isServed = ({ subscription }: LeasedRun) => this.#shares.has(subscription)
    const [served, others] = partition([...runs], (run) => this.#state === 'running' && isServed(run))
    for (const run of served) this.#holdOne(this.#shares.get(run.subscription) as Share, run, askedAt)
    this.#pump()
    await this.#handBack.runs(others)
  }

  /** Somebody has changed a subscription: the next attempt goes by it, or there is none for now. */
  refresh(subscription: Subscription, concurrency?: number): void {
    const share = this.#shares.get(subscription.no)
    if (share === undefined) return
    const { isHeld: wasHeld, limited: wasLimited, subscription: before } = share
    share.refresh(subscription)
    share.concurrency = concurrency ?? share.concurrency
    // What was leased without a limit would not keep to it.
    const isStricter = (share.isHeld && !wasHeld) || (share.limited && !wasLimited)
    if (isStricter) void this.#giveUp(share)
    // Also after a drain: what came meanwhile may go now.
    if (!share.isHeld && before.status !== subscription.status) this.wake()
  }

  /** An operator has cancelled some deliveries of a subscription: what of them has not begun never does. */
  cancel(subscription: number, eventIds: readonly number[]): void {
    const cancelled = new Set(eventIds)
    for (const held of this.#held) {
      if (held.run.subscription !== subscription) continue
      const ids = held.run.deliveries.map(({ event }) => event.id).filter((id) => cancelled.has(id))
      if (ids.length === 0) continue
      this.#renewer.cancel(held, ids)
      if (this.#state === 'running') this.#giveBackOver(held, performance.now())
    }
  }

  /** A subscription that was gone is back. */
  resume(share: Share): void {
    if (this.#shares.has(share.subscription.no)) this.refresh(share.subscription)
    else this.add(share)
  }

  /** What has not begun of a subscription goes back. */
  async handBack(subscription: number): Promise<void> {
    const share = this.#shares.get(subscription)
    if (share !== undefined) await this.#giveUp(share)
  }

  /** A subscription is gone, or another process has it: nothing more begins, what is under way ends, or is told to stop. */
  retire(subscription: number): void {
    const share = this.#shares.get(subscription)
    if (share !== undefined) this.refresh({ ...share.subscription, status: 'deleted' })
    // Not only when its leases are due: another process may be about to begin the same.
    this.#renewer.doubt()
  }

  /** Hands back what has not begun: at once as far as it can be told apart, or when the rest of its run has ended. */
  async #giveUp(share: Share): Promise<void> {
    const held = [...this.#held].filter((one) => this.#shareOf(one) === share)
    const [idle, busy] = partition(held, (one) => one.underWay === 0)
    const unbegun = busy.flatMap((one) => one.waiting)
    for (const one of held) share.drop(one)
    for (const one of busy) one.goesBack = true
    for (const one of idle) this.#forget(one)
    this.#letGo(share)
    await Promise.all([this.#handBack.runs(idle.map((one) => one.run)), this.#handBack.some(unbegun)])
  }

  /** One that is gone is remembered while something of it is held. */
  #letGo(share: Share): void {
    const { no, status } = share.subscription
    if (status !== 'deleted' || [...this.#held].some((held) => held.run.subscription === no)) return
    this.#shares.delete(no)
  }

  #hold(runs: readonly LeasedRun[], askedAt: number): void {
    const unwanted: LeasedRun[] = []
    for (const run of runs) {
      const share = this.#shares.get(run.subscription)
      if (share === undefined || share.isHeld) unwanted.push(run)
      else this.#holdOne(share, run, askedAt)
    }
    if (unwanted.length > 0) void this.#handBack.runs(unwanted)
    this.#pump()
  }

  #holdOne(share: Share, run: LeasedRun, askedAt: number): void {
    const leaseMs = share.leaseMs(askedAt)
    const held: HeldRun = {
      run,
      lane: run.laneKey !== null,
      leasedAt: askedAt,
      leasedAtMs: run.leasedUntil.getTime() - leaseMs,
      holdsUntil: askedAt + leaseMs,
      renewAt: askedAt + leaseMs / 3,
      waiting: [...run.deliveries],
      underWay: 0,
      cancelled: [],
      goesBack: false,
    }
    this.#held.add(held)
    this.#ticker ??= setInterval(() => this.#tick(), tickMs)
    if (run.suspect) this.#suspects.queued(held, share)
    if (!this.#source.holdsBack?.(run)) share.take(held)
  }

  /** A run that its source held back may begin. */
  goOn(run: LeasedRun): void {
    const held = [...this.#held].find((one) => one.run === run)
    if (held === undefined) return
    this.#shareOf(held).take(held)
    this.#pump()
  }

  /** A run that its source held back is nobody's any more: nothing of it begins. */
  drop(run: LeasedRun): void {
    const held = [...this.#held].find((one) => one.run === run)
    if (held === undefined) return
    this.#shareOf(held).drop(held)
    this.#forget(held)
  }

  #wants(now: number) {
    if (this.#isBehind) return []
    const wanting = { now, suspects: this.#suspects.isNone, charsMax: charsMax / this.#shares.size }
    const shares = [...this.#shares.values()]
    const rests = shares.map((share) => share.restMs(now)).filter((ms) => ms > 0)
    if (rests.length > 0) this.#wakeup.wakeAfter(Math.min(...rests))
    return shares.flatMap((share) => share.want(wanting) ?? [])
  }

  async #peek(): Promise<boolean> {
    if (this.#wants(performance.now()).length === 0) return false
    return this.#source.peek([...this.#shares.keys()])
  }

  /** More has ended than can be settled. What still runs does not count: slow endpoints must not slow the others. */
  get #isBehind(): boolean {
    return this.#unsettled - this.#attempts.size >= unsettledMax
  }

  /** Begins whatever may begin. */
  #pump(): void {
    if (this.#state !== 'running') return
    for (const share of this.#shares.values()) {
      while (!this.#isBehind) {
        const next = share.next()
        if (next === undefined) break
        this.#begin(share, next.held, next.delivery)
      }
    }
  }

  #begin(share: Share, held: HeldRun, delivery: LeasedDelivery): void {
    const now = performance.now()
    if (!this.#mayBegin(held, now)) {
      this.#putOff(share, held, delivery, now)
      return
    }
    share.active++
    held.underWay++
    this.#unsettled++
    const attempt = new RunningAttempt(this.#host, share, held, delivery, now)
    this.#attempts.add(attempt)
    if (isOver(held, delivery, now)) {
      this.#end(attempt)
      // Handed back uncounted, since no attempt began: the source ends what was told to stop, upkeep what has expired.
      this.#settlers.add(attempt, { kind: 'release' })
      return
    }
    void (held.run.suspect ? this.#runSuspect(attempt) : this.#run(attempt))
  }

  /** Hands back what waits for a slot and must not begin any more. */
  #giveBackOver(held: HeldRun, now: number): void {
    const share = this.#shareOf(held)
    const over = share.takeOut(held, (delivery) => isOver(held, delivery, now))
    for (const delivery of over) this.#begin(share, held, delivery)
  }

  /** A process may have been stopped since the last look: what it holds is judged by the clock as each attempt begins. */
  #mayBegin(held: HeldRun, now: number): boolean {
    return now < held.holdsUntil && this.#source.mayBegin?.(held.run, now) !== false
  }

  /** Nothing of the run may begin now. What is under way ends, if the lease still holds. */
  #putOff(share: Share, held: HeldRun, delivery: LeasedDelivery, now: number): void {
    if (now >= held.holdsUntil) {
      const why = 'its lease ran out before it could begin'
      const isApart = this.#source.settlesApart?.(held.run)
      this.#options.observe.lost(delivery, why)
      this.#lose(held, why)
      if (isApart) void this.#handBack.some([delivery])
      return
    }
    const unbegun = [delivery, ...held.waiting]
    share.drop(held)
    held.goesBack = true
    if (held.underWay === 0) this.#forget(held)
    else void this.#handBack.some(unbegun)
  }

  /** A suspect is marked before it begins: if it ends this process, it is the one to be charged. */
  async #runSuspect(attempt: RunningAttempt): Promise<void> {
    const beat = { run: attempt.held.run, begun: [attempt.delivery.event.id] }
    const held = await this.#source.heartbeat([beat]).catch((error: unknown) => {
      this.#options.observe.trouble(error, 'marking a suspect as begun')
      return []
    })
    if (attempt.over) return
    this.#suspects.begun(attempt.held, attempt.share)
    const isMarked = held.some(({ unknown }) => unknown === undefined)
    for (const { cancelled } of held) this.#renewer.cancel(attempt.held, cancelled)
    const now = performance.now()
    const mayBegin = this.#mayBegin(attempt.held, now) && !isOver(attempt.held, attempt.delivery, now)
    if (isMarked && mayBegin) return this.#run(attempt)
    this.#end(attempt)
    this.#settlers.add(attempt, { kind: 'release' })
  }

  async #run(attempt: RunningAttempt): Promise<void> {
    let outcome: Outcome | 'held' | 'already settled'
    try {
      await attempt.share.handler(attempt.delivery.event, attempt)
      outcome = attempt.plain ? succeeded : await attempt.outcome()
    } catch (error) {
      outcome = (await this.#settledAnyway(attempt)) ? 'already settled' : attempt.failure(error)
    }
    this.#finish(attempt, outcome)
  }

  /** A delivery that settles in a transaction has a run of its own, which is held and renewed like any other. */
  #moved(attempt: RunningAttempt, run: LeasedRun): void {
    if (attempt.over) return
    const before = attempt.held
    attempt.held = { ...before, run, lane: false, waiting: [], underWay: 1 }
    this.#suspects.moved(before, attempt.held)
    attempt.delivery.run = run
    this.#held.add(attempt.held)
    before.underWay--
    if (before.underWay === 0 && before.waiting.length === 0) this.#forget(before)
  }

  async #settledAnyway(attempt: RunningAttempt): Promise<boolean> {
    try {
      return await attempt.settledByTransaction()
    } catch (error) {
      this.#options.observe.trouble(error, 'asking whether a transaction committed')
      return false
    }
  }

  /** The handler's part is over: its slot is free, and the outcome is settled. */
  #finish(attempt: RunningAttempt, outcome: Outcome | 'held' | 'already settled'): void {
    if (attempt.over) return
    this.#end(attempt)
    const { share, delivery } = attempt
    if (outcome === 'already settled') {
      const timing = attempt.timing(performance.now())
      this.#options.observe.settled({ delivery, settlement: completed, ...timing })
      this.#leave(attempt, 'goes on')
    } else if (outcome === 'held') {
      this.#settle(attempt, { kind: 'release' })
    } else {
      const policy = { failures: delivery.failures, retry: share.subscription.retry, maxRetries: null }
      const stopped = attempt.cancelled && outcome.kind === 'failed'
      this.#settle(attempt, stopped ? { kind: 'cancel' } : decideSettlement(policy, outcome, Math.random()))
    }
    this.#pump()
    if (share.hungry) this.#wakeup.slotFree()
  }

  #settle(attempt: RunningAttempt, settlement: SettleDelivery['settlement']): void {
    if (this.#source.settlesAlone?.(attempt.delivery)) this.#completing.add(attempt)
    this.#settlers.add(attempt, settlement)
  }

  #end(attempt: RunningAttempt): void {
    attempt.over = true
    this.#attempts.delete(attempt)
    attempt.share.active--
    attempt.share.finished()
  }

  #settled(ended: EndedAttempt, answer: SettleAnswer): void {
    const { attempt, delivery } = ended
    const settlement = answer === 'completed' ? completed : ended.settlement
    if (answer === 'lost') this.#options.observe.lost(delivery, 'its settlement came too late')
    else this.#options.observe.settled({ ...ended, settlement })
    const goesOn = answer !== 'lost' && (settlement.kind === 'complete' || settlement.kind === 'cancel')
    this.#leave(attempt, goesOn ? 'goes on' : 'stops')
    // Whether the lane is still ours only the database knows; if it is, somebody must go on with it.
    const unclear = answer === 'lost' || settlement.kind === 'bury'
    if (attempt.held.lane && unclear) void this.#handBack.runs([attempt.held.run])
  }

  /** One delivery of the run is settled. A lane goes on with its next, or is no longer ours. */
  #leave(attempt: RunningAttempt, lane: 'goes on' | 'stops'): void {
    const { share, held } = attempt
    this.#completing.delete(attempt)
    held.underWay--
    this.#unsettled--
    if (held.lane && lane === 'goes on') share.offer(held)
    else if (held.lane) share.drop(held)
    if (held.underWay === 0 && held.waiting.length === 0) this.#forget(held)
    this.#drained?.()
  }

  #forget(held: HeldRun): void {
    if (!this.#held.delete(held)) return
    this.#suspects.acquit(held)
    if (held.run.suspect && this.#suspects.isNone) this.#source.acquitted?.()
    if (held.goesBack) void this.#handBack.runs([held.run])
    const share = this.#shareOf(held)
    this.#letGo(share)
    const { limited, gated } = share
    const unblocks = held.lane || gated || held.run.suspect
    if (limited || (unblocks && this.#unsettled === 0)) this.#wakeup.wake()
    else if (unblocks) this.#wakeup.wakeSoon()
    else this.#wakeup.slotFree()
  }

  /** The lease is gone: what has not begun is somebody else's now, what has begun is told to stop. */
  #lose(held: HeldRun, why: string): void {
    for (const delivery of held.waiting) this.#options.observe.lost(delivery, why)
    // What settles apart is nobody else's: it has to be handed back.
    if (this.#source.settlesApart?.(held.run)) void this.#handBack.some([...held.waiting])
    this.#shareOf(held).drop(held)
    for (const attempt of this.#attempts) {
      if (attempt.held === held) attempt.abort(new Error('The lease was lost'))
    }
    if (held.underWay === 0) this.#forget(held)
  }

  #shareOf(held: HeldRun): Share {
    return this.#shares.get(held.run.subscription) as Share
  }

  /** While nothing is held nobody has to look: a process that waits is left to sleep. */
  #tick(): void {
    if (this.#held.size === 0 && this.#attempts.size === 0) {
      this.#stopTicking()
      return
    }
    const now = performance.now()
    for (const attempt of this.#attempts) {
      const { timeLimitMs } = attempt.share
      if (timeLimitMs !== null && now - attempt.startedAt > timeLimitMs) this.#timeOut(attempt, timeLimitMs)
    }
    if (this.#suspects.acquitLate(now)) this.#wakeup.wake()
    if (this.#state === 'running') {
      for (const held of this.#held) if (hasExpired(held, now)) this.#giveBackOver(held, now)
    }
    void this.#renewer.beat(now)
  }

  #stopTicking(): void {
    clearInterval(this.#ticker)
    this.#ticker = undefined
  }

  /** The slot and the lease are freed whether or not the handler ever returns. */
  #timeOut(attempt: RunningAttempt, timeoutMs: number): void {
    const reason = `The handler did not return within ${timeoutMs} ms`
    attempt.abort(new Error(reason))
    this.#finish(attempt, { kind: 'failed', reason })
  }

  /** Waits until no more than so many are left, and no longer than this. */
  async #untilSettled(ms: number, left: () => number = () => 0): Promise<void> {
    if (this.#unsettled <= left()) return
    const settled = new Promise<void>((resolve) => {
      this.#drained = () => {
        if (this.#unsettled <= left()) resolve()
      }
    })
    let timer: NodeJS.Timeout | undefined
    const over = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms)
    })
    await Promise.race([settled, over])
    clearTimeout(timer)
    this.#drained = undefined
  }

  /** Grace is over: what still runs is told to stop, and is handed back uncounted. */
  async #abandon(): Promise<void> {
    for (const attempt of this.#attempts) {
      attempt.abort(new Error('The hub is stopping'))
      this.#end(attempt)
      this.#settle(attempt, { kind: 'release' })
    }
    await this.#untilSettled(abandonOpenMs)
    await this.#untilSettled(abandonMs - abandonOpenMs, () => this.#completing.size)
    for (const { delivery, completesIn } of this.#completing) {
      if (completesIn) this.#options.observe.lost(delivery, stillOpen)
    }
  }
}

const stillOpen = 'the hub stopped while the transaction that was given to completeIn was still open'
const completed = { kind: 'complete' } as const

/** It must not begin: an operator has cancelled it, or its time is over. */
function isOver(held: HeldRun, { event }: LeasedDelivery, now: number): boolean {
  return hasExpired(held, now) || held.cancelled.includes(event.id)
}

function hasExpired(held: HeldRun, now: number): boolean {
  const { expiresAtMs = null } = held.run
  return expiresAtMs !== null && expiresAtMs <= databaseNowMs(held, now)
}

function partition<T>(all: readonly T[], isFirst: (one: T) => boolean): [first: T[], second: T[]] {
  return [all.filter(isFirst), all.filter((one) => !isFirst(one))]
}

/** It got less than it asked for, so there was no more. */
function isBelow(want: Want, leased: readonly LeasedRun[]): boolean {
  const runs = leased.filter((run) => run.subscription === want.subscription)
  const events = runs.reduce((sum, run) => sum + run.deliveries.length, 0)
  return events < want.eventsMax && runs.length < want.runsMax
}
