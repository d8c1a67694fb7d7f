import { setTimeout as delay } from 'node:timers/promises'
import type { Signals } from '../core/signals.ts'
import { badField } from '../domain/bad-value.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import { formatLeaseToken } from '../domain/lease-token.ts'
import { isLimited, type Subscription } from '../domain/subscription.ts'
import { heartbeat } from '../engine/heartbeat.ts'
import { readCancelled } from '../engine/held.ts'
import type { LeaseTokens } from '../engine/lease-tokens.ts'
import { releaseUnheard } from '../engine/release.ts'
import { PosthornError } from '../errors.ts'
import type { SubscriptionCache } from '../subscriptions/subscription-cache.ts'
import { type FoundLease, findLeases, type LeaseClaim } from './find-leases.ts'
import { GivenLeases } from './given-leases.ts'
import { LeaseBatches } from './lease-batches.ts'
import { type DeskRequest, LeaseDesk } from './lease-desk.ts'
import { ambiguousError, lostErrors } from './lost-leases.ts'
import { type PullSettled, PullSettler, type Reply, type Report } from './pull-settler.ts'
import type { RecentSettlements } from './recent-settlements.ts'
import { type Started, start } from './start.ts'
import { type Arrival, WaitingRoom, type WaitingRoomOptions } from './waiting-room.ts'
import { WorkerNames } from './worker-names.ts'

export interface PullParts extends WaitingRoomOptions {
  readonly signals: Signals
  readonly subscriptions: SubscriptionCache
  readonly leased: (run: LeasedRun, leaseMs: number) => void
  readonly settled: (settled: PullSettled) => void
  readonly tokens: LeaseTokens
  readonly recent: RecentSettlements
}

export interface PullRequest {
  readonly subscription: string
  /** Only deliveries with any of these tags; null: with any tags or none. */
  readonly tags: readonly string[] | null
  readonly workerId: string
  readonly limit: number
  /** Null: as the subscription says. */
  readonly leaseMs: number | null
  readonly waitMs: number
  /** `'reported'`: the worker reports what it has begun, so that a crash counts as a failure of that alone. */
  readonly begins: 'granted' | 'reported'
  readonly suspects: boolean
  /** Aborted when nobody waits for the answer. */
  readonly signal: AbortSignal
}

export interface Pulled {
  readonly subscription: Subscription
  readonly runs: readonly LeasedRun[]
}

export interface RenewRequest {
  /** Null: as the subscription says. */
  readonly leaseMs: number | null
  /** The ids of the events that run now under this lease; null: unchanged. */
  readonly begun: readonly number[] | null
}

export interface Renewed {
  readonly token: string
  readonly workerId: string | null
  readonly leasedUntil: Date
  /** The ids of cancelled events among all that the worker holds through this subscription. */
  readonly cancelled: readonly number[]
  /** The queue is paused: the worker must hand back what has not begun. */
  readonly isHeld: boolean
}

/** How often, and how long each time, a heartbeat waits while a settlement has the lease locked. */
const lockedPauseMs = 50
const lockedTurnsMax = 20

/** How often, and how long each time, to wait for a database that is away before leases can be handed back. */
const awayTriesMax = 1200
const awayPauseMs = 500

/** Leases for workers in other processes: lease, renew, begin, settle, hand back. The HTTP routes call nothing else. */
export class Pull {
  readonly #parts: PullParts
  readonly #room: WaitingRoom
  readonly #workers: WorkerNames
  readonly #settler: PullSettler
  readonly #desk: LeaseDesk
  readonly #batches: LeaseBatches
  readonly #given = new GivenLeases()
  readonly #stopping = new AbortController()

  constructor(parts: PullParts) {
    this.#parts = parts
    this.#room = new WaitingRoom(parts)
    this.#workers = new WorkerNames(parts.db)
    this.#settler = new PullSettler({
      ...parts,
      room: this.#room,
      workers: this.#workers,
      given: this.#given,
    })
    this.#desk = new LeaseDesk({ ...parts, given: this.#given })
    this.#batches = new LeaseBatches(parts)
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

  /** Long polls that wait get an empty answer. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#room.stop()
  }

  /** The number of waiting long polls. */
  get waiting(): number {
    return this.#room.size
  }

  /** Wakes long polls for events that this process has published. */
  published(arrivals: readonly Arrival[]): void {
    this.#room.published(arrivals)
  }

  /** Looks for waiting long polls, since deliveries may have become ready elsewhere. */
  look(): void {
    this.#room.look()
  }

  /** Stores a sign of life for all workers heard of lately, and for those whose long polls wait. */
  async tellWorkers(): Promise<void> {
    for (const name of this.#room.workerIds) this.#workers.hear(name)
    await this.#workers.tell()
  }

  /** Settles attempts; each report gets its own reply. With `records: 'failures'` a success gets no record. */
  settle(reports: readonly Report[], options: { records: 'all' | 'failures' }): Promise<Reply[]> {
    return this.#settler.settle(reports, options)
  }

  /** Leases the oldest waiting deliveries, at most one per lane. With `waitMs` the call waits without a connection. */
  async lease(request: PullRequest): Promise<Pulled> {
    const { subscriptions } = this.#parts
    const { tags, workerId, suspects, signal, waitMs } = request
    const subscription = await subscriptions.named(request.subscription)
    if (subscription.via !== 'pull') {
      const value = `${subscription.name}, whose events go to a ${subscription.via}`
      throw badField('subscription', 'a pull subscription', value)
    }
    // The subscription is read again each time, since it may have changed while the call waited.
    const lease = async () => this.#leaseOnce(await subscriptions.named(request.subscription), request)
    const limited = isLimited(subscription)
    const waiting = { subscription: subscription.no, tags, workerId, suspects, limited, signal }
    const runs = waitMs === 0 ? await lease() : await this.#room.until(lease, waiting, waitMs)
    if (!signal.aborted) return { subscription, runs }
    await this.handBack(runs)
    return { subscription, runs: [] }
  }

  /**
   * Hands back leases whose answer did not reach the worker, as if they had never been given. A lease that the worker has
   * renewed or begun since then stays. While the database is away, the call tries for ten minutes: most leases end by then.
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

  /** Renews everything that was leased with the same token. */
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

  /** Notes that an attempt has begun. A second call changes nothing. */
  async begin(claim: LeaseClaim): Promise<Started> {
    const { runId, token, subscription } = await this.#held(claim)
    const started = await start(this.#parts.db, { runId, token, eventId: claim.eventId })
    if (started === undefined) throw await this.#lost(claim.eventId, subscription)
    return started
  }

  /** The one lease in force that a claim can mean. The claim is also a sign of life of its worker. */
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
    const { signal, workerId, limit } = request
    const leaseMs = request.leaseMs ?? subscription.leaseMs
    if (signal.aborted) return []
    const worker = await this.#workers.numberOf(workerId)
    const asked = { ...request, subscription, leaseMs, worker }
    const isPlain = limit === 1 && !isLimited(subscription)
    const runs = isPlain ? await this.#leaseOne(asked) : await this.#batches.lease(asked, limit)
    for (const run of runs) this.#parts.leased(run, leaseMs)
    return runs
  }

  async #leaseOne(asked: DeskRequest): Promise<readonly LeasedRun[]> {
    const run = await this.#desk.lease(asked)
    return run === undefined ? [] : [run]
  }
}

function isAway(error: unknown): boolean {
  return error instanceof PosthornError && (error.status === 503 || error.status === 504)
}
