import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import { decideSettlement, type Outcome } from '../domain/settlement.ts'
import { type AttemptHost, RunningAttempt, succeeded } from './attempt.ts'
import { type HeldRun, hasExpired, isOver } from './held-run.ts'
import type { HeldRuns } from './held-runs.ts'
import type { LeaseRenewer } from './lease-renewer.ts'
import { type RunnerParts, shareOf } from './runner-parts.ts'
import { type EndedAttempt, Settlers } from './settler.ts'
import type { Share } from './share.ts'
import type { SettleAnswer, SettleDelivery, Source } from './source.ts'

/** With more attempts ended but not yet settled, no attempt begins: the process must not outrun a slow database. */
const unsettledMax = 10_000
/** How long a stop tries to hand back attempts that did not end. After that their leases run out. */
const abandonMs = 10_000
/** How long a stop waits for transactions given to `completeIn`: handlers that were aborted have ended theirs by then. */
const abandonOpenMs = 1_000

/** Takes each attempt from its beginning, when a slot is free, to its settlement. */
export class Attempts implements AttemptHost {
  readonly #parts: RunnerParts
  readonly #held: HeldRuns
  readonly #renewer: LeaseRenewer
  readonly #settlers: Settlers
  /**
   * Attempts whose settlement may have to wait and is not yet stored: they complete in a transaction of their handler, which
   * may hold them locked, or settle alone.
   */
  readonly #completing = new Set<RunningAttempt>()
  #drained: (() => void) | undefined

  constructor(parts: RunnerParts, held: HeldRuns, renewer: LeaseRenewer) {
    this.#parts = parts
    this.#held = held
    this.#renewer = renewer
    this.#settlers = new Settlers({
      parts,
      settled: (ended, answer) => this.#settled(ended, answer),
      done: () => this.pump(),
      trouble: (error) => renewer.failed(error, 'settling'),
    })
  }

  get source(): Source {
    return this.#parts.source
  }

  /** The tokens of runs out of which an attempt moves, or has moved, to a run of its own. */
  get movingTokens(): Set<number> {
    // A lane's run is never divided: the delivery stays in it.
    const moving = [...this.#completing].filter(({ held }) => !held.lane)
    return new Set(moving.map(({ held }) => held.run.token))
  }

  moving(attempt: RunningAttempt): void {
    this.#completing.add(attempt)
  }

  /** A delivery that settles in a transaction has a run of its own, which is held and renewed like any other. */
  moved(attempt: RunningAttempt, run: LeasedRun): void {
    if (attempt.over) return
    const before = attempt.held
    attempt.held = { ...before, run, lane: false, waiting: [], underWay: 1 }
    this.#parts.suspects.moved(before, attempt.held)
    attempt.delivery.run = run
    this.#parts.held.add(attempt.held)
    before.underWay--
    this.#forgetIfDone(before)
  }

  withoutRenewing<T>(held: HeldRun, work: () => Promise<T>): Promise<T> {
    return this.#renewer.withoutRenewing(held, work)
  }

  /** Begins all deliveries that may begin. */
  pump(): void {
    if (this.#parts.state !== 'running') return
    for (const share of this.#parts.shares.values()) {
      while (!isBehind(this.#parts)) {
        const next = share.next()
        if (next === undefined) break
        this.#begin(share, next.held, next.delivery)
      }
    }
  }

  /** Hands back deliveries that were cancelled or have expired while they waited for a slot. */
  giveBackOver(held: HeldRun, now: number): void {
    const share = shareOf(this.#parts, held)
    const over = share.takeOut(held, (delivery) => isOver(held, delivery, now))
    for (const delivery of over) this.#begin(share, held, delivery)
  }

  /** Ends attempts that have taken too long, and hands back deliveries that have expired before they could begin. */
  tick(now: number): void {
    const { underWay, held, state } = this.#parts
    for (const attempt of underWay) {
      const { timeLimitMs } = attempt.share
      if (timeLimitMs !== null && now - attempt.startedAt > timeLimitMs) this.#timeOut(attempt, timeLimitMs)
    }
    if (state !== 'running') return
    for (const one of held) if (hasExpired(one, now)) this.giveBackOver(one, now)
  }

  #begin(share: Share, held: HeldRun, delivery: LeasedDelivery): void {
    const now = performance.now()
    if (!mayBegin(held, now)) {
      this.#putOff(held, delivery, now)
      return
    }
    share.active++
    held.underWay++
    this.#parts.unsettled++
    const attempt = new RunningAttempt(this, share, held, delivery, now)
    this.#parts.underWay.add(attempt)
    if (isOver(held, delivery, now)) {
      this.#end(attempt)
      // No attempt began, so none is counted. The source ends cancelled deliveries, upkeep expired ones.
      this.#settlers.add(attempt, { kind: 'release' })
      return
    }
    void (held.run.suspect ? this.#runSuspect(attempt) : this.#run(attempt))
  }

  /** Hands back the rest of the run, which must not begin now; if the lease has ended, the run is lost. */
  #putOff(held: HeldRun, delivery: LeasedDelivery, now: number): void {
    if (now < held.holdsUntil) {
      this.#held.putOff(held, delivery)
      return
    }
    const why = 'its lease ran out before it could begin'
    this.#parts.observe.lost(delivery, why)
    this.#held.lose(held, why)
    if (held.run.memory?.settlesInMemory) void this.#held.handBackSome([delivery])
  }

  /** Marks a suspect before it begins, so that a crash of this process is charged to it. */
  async #runSuspect(attempt: RunningAttempt): Promise<void> {
    const { source, observe, suspects } = this.#parts
    const beat = { run: attempt.held.run, begun: [attempt.delivery.event.id] }
    const leases = await source.heartbeat([beat]).catch((error: unknown) => {
      observe.trouble(error, 'marking a suspect as begun')
      return []
    })
    if (attempt.over) return
    suspects.begun(attempt.held, attempt.share)
    const isMarked = leases.some(({ unknown }) => unknown === undefined)
    for (const { cancelled } of leases) this.#renewer.cancel(attempt.held, cancelled)
    const now = performance.now()
    if (isMarked && mayBegin(attempt.held, now) && !isOver(attempt.held, attempt.delivery, now)) {
      return this.#run(attempt)
    }
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

  async #settledAnyway(attempt: RunningAttempt): Promise<boolean> {
    try {
      return await attempt.settledByTransaction()
    } catch (error) {
      this.#parts.observe.trouble(error, 'asking whether a transaction committed')
      return false
    }
  }

  /** The slot and the lease are freed whether or not the handler ever returns. */
  #timeOut(attempt: RunningAttempt, timeoutMs: number): void {
    const reason = `The handler did not return within ${timeoutMs} ms`
    attempt.abort(new Error(reason))
    this.#finish(attempt, { kind: 'failed', reason })
  }

  /** Frees the handler's slot, and settles the outcome. */
  #finish(attempt: RunningAttempt, outcome: Outcome | 'held' | 'already settled'): void {
    if (attempt.over) return
    this.#end(attempt)
    const { share, delivery } = attempt
    if (outcome === 'already settled') {
      const timing = attempt.timing(performance.now())
      this.#parts.observe.settled({ delivery, settlement: completed, ...timing })
      this.#leave(attempt, 'goes on')
    } else if (outcome === 'held') {
      this.#settle(attempt, { kind: 'release' })
    } else {
      const policy = { failures: delivery.failures, retry: share.subscription.retry, maxRetries: null }
      const stopped = attempt.cancelled && outcome.kind === 'failed'
      this.#settle(attempt, stopped ? { kind: 'cancel' } : decideSettlement(policy, outcome, Math.random()))
    }
    this.pump()
    if (share.hungry) this.#parts.wakeup.slotFree()
  }

  #end(attempt: RunningAttempt): void {
    attempt.over = true
    this.#parts.underWay.delete(attempt)
    attempt.share.active--
    attempt.share.finished()
  }

  #settle(attempt: RunningAttempt, settlement: SettleDelivery['settlement']): void {
    if (attempt.delivery.settlesAlone) this.#completing.add(attempt)
    this.#settlers.add(attempt, settlement)
  }

  #settled(ended: EndedAttempt, answer: SettleAnswer): void {
    const { observe } = this.#parts
    const { attempt, delivery } = ended
    const settlement = answer === 'completed' ? completed : ended.settlement
    if (answer === 'lost') observe.lost(delivery, 'its settlement came too late')
    else observe.settled({ ...ended, settlement })
    const goesOn = answer !== 'lost' && (settlement.kind === 'complete' || settlement.kind === 'cancel')
    this.#leave(attempt, goesOn ? 'goes on' : 'stops')
    // Only the database knows whether this process still has the lane. Handing it back lets it go on in either case.
    const unclear = answer === 'lost' || settlement.kind === 'bury'
    if (attempt.held.lane && unclear) void this.#held.handBack([attempt.held.run])
  }

  /** A delivery of the run is settled. Its lane goes on with the next delivery, or this process has lost the lane. */
  #leave(attempt: RunningAttempt, lane: 'goes on' | 'stops'): void {
    const { share, held } = attempt
    this.#completing.delete(attempt)
    held.underWay--
    this.#parts.unsettled--
    if (held.lane && lane === 'goes on') share.offer(held)
    else if (held.lane) share.drop(held)
    this.#forgetIfDone(held)
    this.#drained?.()
  }

  #forgetIfDone(held: HeldRun): void {
    if (held.underWay === 0 && held.waiting.length === 0) this.#held.forget(held)
  }

  /** Waits until at most `left()` attempts are unsettled, and no longer than `ms`. */
  async untilSettled(ms: number, left: () => number = () => 0): Promise<void> {
    if (this.#parts.unsettled <= left()) return
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms)
      this.#drained = () => {
        if (this.#parts.unsettled <= left()) resolve()
      }
    })
    clearTimeout(timer)
    this.#drained = undefined
  }

  /** The grace is over: aborts the remaining attempts, and hands them back uncounted. */
  async abandon(): Promise<void> {
    for (const attempt of this.#parts.underWay) {
      attempt.abort(new Error('The hub is stopping'))
      this.#end(attempt)
      this.#settle(attempt, { kind: 'release' })
    }
    await this.untilSettled(abandonOpenMs)
    await this.untilSettled(abandonMs - abandonOpenMs, () => this.#completing.size)
    for (const { delivery, completesIn } of this.#completing) {
      if (completesIn) this.#parts.observe.lost(delivery, stillOpen)
    }
  }

  /** Called when the runner has stopped: `movingTokens` is not asked for again. */
  clear(): void {
    this.#completing.clear()
  }
}

const stillOpen = 'the hub stopped while the transaction that was given to completeIn was still open'
const completed = { kind: 'complete' } as const

/** The process may have been frozen since it last checked its leases, so the clock is read as each attempt begins. */
function mayBegin({ holdsUntil, run }: HeldRun, now: number): boolean {
  return now < holdsUntil && run.memory?.mayBegin(now) !== false
}

/** Too many attempts have ended and wait to be settled. Running attempts do not count: slow endpoints must not slow the others. */
export function isBehind({ unsettled, underWay }: RunnerParts): boolean {
  return unsettled - underWay.size >= unsettledMax
}
