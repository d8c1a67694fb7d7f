import { setTimeout as delay } from 'node:timers/promises'
import type { Signals } from '../core/signals.ts'
import { badField } from '../domain/bad-value.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import { formatLeaseToken } from '../domain/lease-token.ts'
import { isLimited, type Subscription } from '../domain/subscription.ts'
import { heartbeat } from '../engine/heartbeat.ts'
import { readCancelled } from '../engine/held.ts'
import { newToken } from '../engine/lease-tokens.ts'
import { releaseUnheard } from '../engine/release.ts'
import { PosthornError } from '../errors.ts'
import type { SubscriptionCache } from '../subscriptions/subscription-cache.ts'
import { type FoundLease, findLeases, type LeaseClaim } from './find-leases.ts'
import { ambiguousError, lostErrors } from './lease-errors.ts'
import { poll } from './poll.ts'
import type { RecentSettlements } from './recent-settlements.ts'
import { type PullSettled, PullSettler, type Reply, type Report } from './remote-settler.ts'
import { type Started, start } from './start.ts'
import { type Arrival, WaitingRoom, type WaitingRoomOptions } from './waiting-room.ts'
import { WorkerNames } from './worker-names.ts'

export interface PullParts extends WaitingRoomOptions {
  readonly signals: Signals
  readonly subscriptions: SubscriptionCache
  readonly leased: (run: LeasedRun, leaseMs: number) => void
  readonly settled: (settled: PullSettled) => void
  /** A lease failed, perhaps after its commit. */
  readonly lost: (worker: number, token: number) => void
  readonly recent: RecentSettlements
}

export interface PullRequest {
  readonly subscription: string
  /** Any of these; null: whatever their tags. */
  readonly tags: readonly string[] | null
  readonly workerId: string
  readonly limit: number
  /** Null: the subscription's. */
  readonly leaseMs: number | null
  readonly waitMs: number
  /** `'reported'`: the worker says later what it has begun, so that a crash is charged to that alone. */
  readonly begins: 'granted' | 'reported'
  readonly suspects: boolean
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal
}

export interface Pulled {
  readonly subscription: Subscription
  readonly runs: readonly LeasedRun[]
}

export interface RenewRequest {
  /** Null: the subscription's. */
  readonly leaseMs: number | null
  /** What runs now under this lease; null: as before. */
  readonly begun: readonly number[] | null
}

export interface Renewed {
  readonly token: string
  readonly workerId: string | null
  readonly leasedUntil: Date
  /** What an operator has cancelled of all that the worker holds through this subscription. */
  readonly cancelled: readonly number[]
  /** Its queue is paused: what has not begun is to be handed back. */
  readonly isHeld: boolean
}

/** What one answer holds at most, by the sizes seen lately. */
const answerCharsMax = 16 * 2 ** 20

/** How long to wait for a lease that its own settlement holds locked. */
const lockedPauseMs = 50
const lockedTurnsMax = 20

/** How often, and how long each time, to wait for a database that is away before what was leased is handed back. */
const awayTriesMax = 1200
const awayPauseMs = 500

/** Leases for workers that share nothing with this process but a connection. */
export class Pull {
  readonly #parts: PullParts
  readonly #room: WaitingRoom
  readonly #workers: WorkerNames
  readonly #settler: PullSettler
  readonly #stopping = new AbortController()
  /** How many deliveries a run has held lately, by subscription: how many runs to look at. */
  readonly #deliveriesPerRun = new Map<number, number>()
  /** How long payloads have been lately, by subscription: they may have a megabyte each. */
  readonly #chars = new Map<number, number>()

  constructor(parts: PullParts) {
    this.#parts = parts
    this.#room = new WaitingRoom(parts)
    this.#workers = new WorkerNames(parts.db)
    this.#settler = new PullSettler({ ...parts, room: this.#room, workers: this.#workers })
    this.#listen(parts.signals)
  }

  #listen(signals: Signals): void {
    signals.on('published', ({ answers, events }) =>
      this.published(answers.map(({ owed }, place) => ({ owed, tags: events[place]?.tags ?? null }))),
    )
    signals.on('wake', () => this.look())
    signals.on('subscriptionsChanged', () => this.look())
    signals.on('reconnected', () => {
      this.#workers.forget()
      this.look()
    })
  }

  start(): void {
    this.#room.start()
  }

  /** Whoever waits goes home empty-handed. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#room.stop()
  }

  /** How many long polls wait. */
  get waiting(): number {
    return this.#room.size
  }

  /** Events were published in this process. */
  published(arrivals: readonly Arrival[]): void {
    this.#room.published(arrivals)
  }

  /** Something may have happened elsewhere. */
  look(): void {
    this.#room.look()
  }

  /** Says of all workers heard of lately that they live; those who wait do. */
  async tellWorkers(): Promise<void> {
    for (const name of this.#room.workerIds) this.#workers.hear(name)
    await this.#workers.tell()
  }

  /** Each report is answered by itself; `records` says whether successes are answered with their record too. */
  settle(reports: readonly Report[], options: { records: 'all' | 'failures' }): Promise<Reply[]> {
    return this.#settler.settle(reports, options)
  }

  /** What waits, oldest first, at most one delivery per lane. Waits for it if asked to, without a connection. */
  async lease(request: PullRequest): Promise<Pulled> {
    const { subscriptions } = this.#parts
    const { tags, workerId, suspects, signal, waitMs } = request
    const subscription = await subscriptions.named(request.subscription)
    if (subscription.via !== 'pull') {
      const value = `${subscription.name}, whose events go to a ${subscription.via}`
      throw badField('subscription', 'a pull subscription', value)
    }
    // Asked for anew each time: a limit may have been set while it waited.
    const lease = async () => this.#leaseOnce(await subscriptions.named(request.subscription), request)
    const limited = isLimited(subscription)
    const waiting = { subscription: subscription.no, tags, workerId, suspects, limited, signal }
    const runs = waitMs === 0 ? await lease() : await this.#room.until(lease, waiting, waitMs)
    if (!signal.aborted) return { subscription, runs }
    await this.handBack(runs)
    return { subscription, runs: [] }
  }

  /**
   * Hands back leases whose answer did not arrive, as if they had never been given. A lease that its worker has renewed
   * or begun since stays. While the database is away the call tries again for ten minutes: most leases have ended by then.
   */
  async handBack(runs: readonly Pick<LeasedRun, 'id' | 'token'>[]): Promise<void> {
    if (runs.length === 0) return
    const releases = runs.map(({ id, token }) => ({ runId: id, token }))
    const { signal } = this.#stopping
    for (let tries = 1; ; tries++) {
      try {
        await releaseUnheard(this.#parts.db, releases)
        break
      } catch (error) {
        if (!isAway(error) || signal.aborted || tries === awayTriesMax) throw error
        await delay(awayPauseMs, undefined, { signal }).catch(() => undefined)
      }
    }
    this.#room.look()
  }

  /** Renews everything that is leased under the same token. */
  async renew(claim: LeaseClaim, { leaseMs, begun }: RenewRequest): Promise<Renewed> {
    for (let turn = 0; ; turn++) {
      const lease = await this.#held(claim)
      const { runId, token } = lease
      const ms = leaseMs ?? (await this.#parts.subscriptions.numbered(lease.subscription))?.leaseMs ?? 60_000
      const [held] = await heartbeat(this.#parts.db, [{ runId, token, leaseMs: ms, begun }])
      if (held === undefined) throw await this.#lost(claim.eventId, lease.subscription)
      if (held.leasedUntil !== null) {
        const lane = lease.orderingKey !== null
        const text = formatLeaseToken({ ...lease, lane })
        const { leasedUntil, isHeld } = held
        const cancelled = await readCancelled(this.#parts.db, runId)
        return { token: text, workerId: lease.workerId, leasedUntil, cancelled, isHeld }
      }
      if (turn === lockedTurnsMax) throw new PosthornError('LEASE_BUSY', { eventId: claim.eventId })
      await delay(lockedPauseMs)
    }
  }

  /** Notes that an attempt has begun; doing it twice is doing it once. */
  async begin(claim: LeaseClaim): Promise<Started> {
    const { runId, token, subscription } = await this.#held(claim)
    const started = await start(this.#parts.db, { runId, token, eventId: claim.eventId })
    if (started === undefined) throw await this.#lost(claim.eventId, subscription)
    return started
  }

  /** The one lease in force that a claim can mean. Who asks for it lives. */
  async #held(claim: LeaseClaim): Promise<FoundLease> {
    const { db } = this.#parts
    const [found = []] = await findLeases(db, [claim])
    const held = found.filter((lease) => lease.inForce)
    const worker = 'workerId' in claim ? claim.workerId : held[0]?.workerId
    if (worker != null) this.#workers.hear(worker)
    if (held.length > 1) throw await ambiguousError(this.#parts.subscriptions, claim.eventId, held)
    const subscription = 'token' in claim ? claim.token.subscription : null
    return held[0] ?? Promise.reject(await this.#lost(claim.eventId, subscription))
  }

  async #lost(eventId: number, subscription: number | null): Promise<PosthornError> {
    const [error] = await lostErrors(this.#parts.db, [{ eventId, subscription }])
    return error as PosthornError
  }

  async #leaseOnce(subscription: Subscription, request: PullRequest): Promise<readonly LeasedRun[]> {
    const { db, admitter, leased, trouble, lost } = this.#parts
    const { tags, limit, begins, suspects, signal, workerId } = request
    const leaseMs = request.leaseMs ?? subscription.leaseMs
    if (signal.aborted) return []
    const worker = await this.#workers.numberOf(workerId)
    const terms = { subscription, tags, begins, leaseMs, worker, lost }
    const take = (bounds: { eventsMax: number; runsMax: number; suspects: boolean }) =>
      poll(db, admitter, { ...terms, token: newToken(), ...bounds })
    const perRun = this.#deliveriesPerRun.get(subscription.no) ?? 1
    const eventsMax = Math.min(limit, Math.ceil(answerCharsMax / (this.#chars.get(subscription.no) ?? 1)))
    const runsMax = Math.min(eventsMax, Math.ceil(eventsMax / perRun) + 1)
    const runs = await take({ eventsMax, runsMax, suspects })
    this.#learn(subscription.no, runs)
    const left = eventsMax - countDeliveries(runs)
    // Runs that are shorter than those before them: there may be more. But a suspect is handed out alone.
    if (left > 0 && runs.length === runsMax && !runs.some((run) => run.suspect)) {
      try {
        runs.push(...(await take({ eventsMax: left, runsMax: left, suspects: false })))
      } catch (error) {
        // What is leased already must reach its worker.
        trouble(error, 'leasing more')
      }
    }
    for (const run of runs) leased(run, leaseMs)
    return runs
  }

  #learn(subscription: number, runs: readonly LeasedRun[]): void {
    if (runs.length === 0) return
    const deliveries = countDeliveries(runs)
    const chars = runs
      .flatMap((run) => run.deliveries)
      .reduce((sum, one) => sum + one.event.payloadText.length, 0)
    const smoothed = ((this.#chars.get(subscription) ?? 1) * 7 + chars / deliveries) / 8
    this.#chars.set(subscription, Math.max(smoothed, chars / deliveries, 1))
    const before = this.#deliveriesPerRun.get(subscription) ?? 1
    this.#deliveriesPerRun.set(subscription, before + (deliveries / runs.length - before) / 4)
  }
}

function countDeliveries(runs: readonly LeasedRun[]): number {
  return runs.reduce((sum, run) => sum + run.deliveries.length, 0)
}

function isAway(error: unknown): boolean {
  return error instanceof PosthornError && (error.status === 503 || error.status === 504)
}
