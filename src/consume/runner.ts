import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import type { Subscription } from '../domain/subscription.ts'
import { Attempts } from './attempts.ts'
import type { HeldRun } from './held-run.ts'
import { HeldRuns } from './held-runs.ts'
import { runLeaseLoop } from './lease-loop.ts'
import { LeaseRenewer, tickMs } from './lease-renewer.ts'
import { type RunnerObserver, type RunnerParts, shareOf } from './runner-parts.ts'
import type { Share } from './share.ts'
import type { Source } from './source.ts'
import { Suspects } from './suspects.ts'
import { Wakeup, type WakeupOptions } from './wakeup.ts'

export interface RunnerOptions extends WakeupOptions {
  readonly source: Source
  readonly observe: RunnerObserver
  readonly suspectsCleared?: RunnerParts['suspectsCleared']
}

/**
 * The one loop behind every way to consume: lease ahead, begin what may begin, settle what is done, keep the
 * leases alive. It sees nothing but its source, so it runs as well in a remote process.
 */
export class Runner {
  readonly #parts: RunnerParts
  readonly #held: HeldRuns
  readonly #renewer: LeaseRenewer
  readonly #attempts: Attempts
  #loop: Promise<void> | undefined
  #ticker: NodeJS.Timeout | undefined

  constructor({ source, observe, suspectsCleared = () => undefined, ...options }: RunnerOptions) {
    this.#parts = {
      source,
      observe,
      suspectsCleared,
      wakeup: new Wakeup(options),
      suspects: new Suspects(),
      shares: new Map(),
      held: new Set(),
      underWay: new Set(),
      unsettled: 0,
      state: 'idle',
    }
    this.#held = new HeldRuns(this.#parts)
    this.#renewer = new LeaseRenewer(this.#parts, this.#held)
    this.#attempts = new Attempts(this.#parts, this.#held, this.#renewer)
  }

  /** From now on asks this source instead, which also takes back the runs of the one before. */
  use(source: Source): void {
    this.#parts.source = source
  }

  add(share: Share): void {
    this.#parts.shares.set(share.subscription.no, share)
    this.wake()
  }

  start(): void {
    if (this.#parts.state !== 'idle') return
    this.#parts.state = 'running'
    this.#loop = runLeaseLoop(this.#parts, this.#renewer, (runs, askedAt) => this.#hold(runs, askedAt))
  }

  /** How many attempts are under way. */
  get underWay(): number {
    return this.#parts.underWay.size
  }

  /** The numbers of subscriptions of which deliveries are held that have not begun. */
  get waitingFor(): number[] {
    return [...new Set(this.unbegun.map(({ run }) => run.subscription))]
  }

  /** Deliveries in hand that have not begun. */
  get unbegun(): LeasedDelivery[] {
    return [...this.#parts.held].flatMap((held) => held.waiting)
  }

  /**
   * Tells which leases are of runs that this runner holds or has not yet settled, at the moment of the call. An attempt that
   * moves to a run of its own may be in either run, as an answer or a server may be lost: it makes every run with its token
   * known.
   */
  knownLeases(): (lease: { readonly runId: number; readonly token: number }) => boolean {
    const runs = new Set([...this.#parts.held].map(({ run }) => `${run.id} ${run.token}`))
    const tokens = this.#attempts.movingTokens
    return ({ runId, token }) => tokens.has(token) || runs.has(`${runId} ${token}`)
  }

  /** There may be something to lease. */
  wake(): void {
    this.#parts.wakeup.wake()
  }

  /**
   * Begins nothing more, gives what is under way `graceMs` to end, aborts the rest, and hands every lease
   * back. What had not ended is not counted as an attempt.
   */
  async stop(graceMs: number): Promise<void> {
    if (this.#parts.state === 'idle') return
    if (this.#parts.state === 'running') {
      this.#parts.state = 'stopping'
      this.#parts.wakeup.wake()
    }
    await this.#loop
    const { busy, handedBack } = this.#held.dropAll()
    await Promise.all([handedBack, this.#attempts.untilSettled(graceMs)])
    await this.#attempts.abandon()
    await this.#held.handBack(busy)
    this.#parts.held.clear()
    this.#attempts.clear()
    this.#parts.suspects.clear()
    this.#stopTicking()
    this.#parts.wakeup.stop()
    this.#parts.state = 'idle'
  }

  /** Which subscriptions would begin this many deliveries at once, if they were given them. */
  idle(deliveries: number): Subscription[] {
    if (this.#parts.state !== 'running' || !this.#parts.wakeup.isIdle) return []
    return [...this.#parts.shares.values()]
      .filter((share) => share.isIdle(deliveries))
      .map((s) => s.subscription)
  }

  /** Runs that were leased for us without a call of the lease loop, asked for at `askedAt`. */
  async take(runs: readonly LeasedRun[], askedAt: number): Promise<void> {
    if (this.#parts.state === 'running') this.#hold(runs, askedAt)
    else await this.#held.handBack(runs)
  }

  /** Runs that were leased although their subscription is suspended. */
  async probe(runs: readonly LeasedRun[], askedAt: number): Promise<void> {
    const shareOf = (run: LeasedRun) =>
      this.#parts.state === 'running' ? this.#parts.shares.get(run.subscription) : undefined
    const unserved = runs.filter((run) => shareOf(run) === undefined)
    for (const run of runs) {
      const share = shareOf(run)
      if (share !== undefined) this.#holdOne(share, run, askedAt)
    }
    this.#attempts.pump()
    await this.#held.handBack(unserved)
  }

  /** A subscription has changed: the next attempt goes by it, or there is none for now. */
  refresh(subscription: Subscription, concurrency?: number): void {
    const share = this.#parts.shares.get(subscription.no)
    if (share === undefined) return
    const { isHeld: wasHeld, limited: wasLimited, subscription: before } = share
    share.refresh(subscription)
    share.concurrency = concurrency ?? share.concurrency
    // What was leased without a limit would not keep to it.
    const isStricter = (share.isHeld && !wasHeld) || (share.limited && !wasLimited)
    if (isStricter) void this.#held.giveUp(share)
    // Also after a drain: what came meanwhile may go now.
    if (!share.isHeld && before.status !== subscription.status) this.wake()
  }

  /** An operator has cancelled some deliveries of a subscription: those that have not begun never do. */
  cancel(subscription: number, eventIds: readonly number[]): void {
    const cancelled = new Set(eventIds)
    for (const held of this.#parts.held) {
      if (held.run.subscription !== subscription) continue
      const ids = held.run.deliveries.map(({ event }) => event.id).filter((id) => cancelled.has(id))
      if (ids.length === 0) continue
      this.#renewer.cancel(held, ids)
      if (this.#parts.state === 'running') this.#attempts.giveBackOver(held, performance.now())
    }
  }

  /** A subscription that was gone is back. */
  resume(share: Share): void {
    if (this.#parts.shares.has(share.subscription.no)) this.refresh(share.subscription)
    else this.add(share)
  }

  /** What has not begun of a subscription goes back. */
  async handBack(subscription: number): Promise<void> {
    const share = this.#parts.shares.get(subscription)
    if (share !== undefined) await this.#held.giveUp(share)
  }

  /** A subscription is gone, or another process has it: nothing more begins, what is under way ends, or is told to stop. */
  retire(subscription: number): void {
    const share = this.#parts.shares.get(subscription)
    if (share !== undefined) this.refresh({ ...share.subscription, status: 'deleted' })
    // Not only when its leases are due: another process may be about to begin the same.
    this.#renewer.doubt()
  }

  /** A run that memory held back may begin. */
  goOn(run: LeasedRun): void {
    const held = this.#find(run)
    if (held === undefined) return
    shareOf(this.#parts, held).take(held)
    this.#attempts.pump()
  }

  /** A run that memory held back is nobody's any more: nothing of it begins. */
  drop(run: LeasedRun): void {
    const held = this.#find(run)
    if (held !== undefined) this.#held.drop(held)
  }

  #find(run: LeasedRun): HeldRun | undefined {
    return [...this.#parts.held].find((held) => held.run === run)
  }

  #hold(runs: readonly LeasedRun[], askedAt: number): void {
    const unwanted: LeasedRun[] = []
    for (const run of runs) {
      const share = this.#parts.shares.get(run.subscription)
      if (share === undefined || share.isHeld) unwanted.push(run)
      else this.#holdOne(share, run, askedAt)
    }
    if (unwanted.length > 0) void this.#held.handBack(unwanted)
    this.#attempts.pump()
  }

  #holdOne(share: Share, run: LeasedRun, askedAt: number): void {
    this.#ticker ??= setInterval(() => this.#tick(), tickMs)
    this.#held.hold(share, run, askedAt)
  }

  /** While nothing is held nobody has to look: a process that waits is left to sleep. */
  #tick(): void {
    if (this.#parts.held.size === 0 && this.#parts.underWay.size === 0) {
      this.#stopTicking()
      return
    }
    const now = performance.now()
    this.#attempts.tick(now)
    if (this.#parts.suspects.acquitLate(now)) this.#parts.wakeup.wake()
    void this.#renewer.beat(now)
  }

  #stopTicking(): void {
    clearInterval(this.#ticker)
    this.#ticker = undefined
  }
}
