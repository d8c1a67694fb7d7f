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
 * leases alive. It knows only its source, so it also runs in a remote process, over HTTP.
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

  /** Leases from this source from now on. It also takes back runs that the previous source leased. */
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

  /** The numbers of subscriptions with held deliveries that have not begun. */
  get waitingFor(): number[] {
    return [...new Set(this.unbegun.map(({ run }) => run.subscription))]
  }

  /** Held deliveries that have not begun. */
  get unbegun(): LeasedDelivery[] {
    return [...this.#parts.held].flatMap((held) => held.waiting)
  }

  /**
   * Says of a lease whether its run was held, or not yet settled, at the moment of this call. An attempt that moves to a run of
   * its own may be in either run, since an answer or a server may be lost: every run with its token counts as known.
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
   * Begins no more attempts, gives those under way `graceMs` to end, aborts the rest, and hands all leases back.
   * An aborted attempt is not counted.
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

  /** The subscriptions that could begin this many deliveries at once. */
  idle(deliveries: number): Subscription[] {
    if (this.#parts.state !== 'running' || !this.#parts.wakeup.isIdle) return []
    return [...this.#parts.shares.values()]
      .filter((share) => share.isIdle(deliveries))
      .map((s) => s.subscription)
  }

  /** Takes runs that were leased to this runner without a call of the lease loop, and asked for at `askedAt`. */
  async take(runs: readonly LeasedRun[], askedAt: number): Promise<void> {
    if (this.#parts.state === 'running') this.#hold(runs, askedAt)
    else await this.#held.handBack(runs)
  }

  /** Takes runs that were leased as probes, although their subscription is suspended. */
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

  /** A subscription has changed: the next attempt follows its new options, or no attempt begins while it is halted. */
  refresh(subscription: Subscription, concurrency?: number): void {
    const share = this.#parts.shares.get(subscription.no)
    if (share === undefined) return
    const { isHeld: wasHeld, limited: wasLimited, subscription: before } = share
    share.refresh(subscription)
    share.concurrency = concurrency ?? share.concurrency
    // Deliveries that were leased before the limit was set would exceed it.
    const isStricter = (share.isHeld && !wasHeld) || (share.limited && !wasLimited)
    if (isStricter) void this.#held.giveUp(share)
    // Also after a drain: deliveries that arrived meanwhile may be leased now.
    if (!share.isHeld && before.status !== subscription.status) this.wake()
  }

  /** An operator has cancelled deliveries of a subscription: those that have not begun are dropped. */
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

  /** Serves a retired subscription again. */
  resume(share: Share): void {
    if (this.#parts.shares.has(share.subscription.no)) this.refresh(share.subscription)
    else this.add(share)
  }

  /** Hands back the deliveries of a subscription that have not begun. */
  async handBack(subscription: number): Promise<void> {
    const share = this.#parts.shares.get(subscription)
    if (share !== undefined) await this.#held.giveUp(share)
  }

  /** The subscription has ended, or another process has it: no more attempts begin, and those under way end or are aborted. */
  retire(subscription: number): void {
    const share = this.#parts.shares.get(subscription)
    if (share !== undefined) this.refresh({ ...share.subscription, status: 'deleted' })
    // At once, not when its leases are due: another process may be about to begin the same deliveries.
    this.#renewer.doubt()
  }

  /** A run that memory held back may begin. */
  goOn(run: LeasedRun): void {
    const held = this.#find(run)
    if (held === undefined) return
    shareOf(this.#parts, held).take(held)
    this.#attempts.pump()
  }

  /** This process has lost a run that memory held back: nothing of it begins. */
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

  /** Stops the ticker once no run is held, so that an idle process can sleep. */
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
