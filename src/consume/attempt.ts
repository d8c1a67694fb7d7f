import { badOption } from '../domain/bad-value.ts'
import { type CallerTransaction, checkTransaction } from '../domain/caller-transaction.ts'
import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import { describeError } from '../domain/describe-error.ts'
import type { ExchangeRecord } from '../domain/exchange-record.ts'
import type { Outcome } from '../domain/settlement.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import { toReason } from '../domain/text.ts'
import { PosthornError } from '../errors.ts'
import { isConflict } from './conflict.ts'
import type { HeldRun } from './held-run.ts'
import { LightAbortSignal } from './light-abort-signal.ts'
import type { Share } from './share.ts'
import type { Source, Timing } from './source.ts'

/** What a handler can do besides returning and throwing. */
export interface Attempt {
  /** From 1. */
  readonly number: number
  readonly failures: number
  /** The subscription's name. */
  readonly subscription: string
  /** Aborted when the attempt times out, its lease is lost, it is cancelled, or the hub stops for good. */
  readonly signal: AbortSignal
  /** Try again later, without counting a failure. Takes effect when the handler returns. */
  snooze(ms: number): void
  /** Give up on this delivery: a dead letter. Takes effect when the handler returns. */
  bury(reason: string): void
  /**
   * Completes the delivery inside the caller's transaction: its effect and the settlement commit together,
   * or neither does. Throws LEASE_LOST when the lease is gone: let the transaction roll back then. A REPEATABLE READ or
   * SERIALIZABLE transaction has to call it first, else it throws STALE_SNAPSHOT.
   */
  completeIn(tx: CallerTransaction): Promise<void>
}

export type Handler<Event = StoredEvent> = (event: Event, attempt: Attempt) => unknown

/** The end of an attempt that is not a call of a handler: it may have been held back, and a webhook has an exchange. */
export interface Conclusion {
  /** `held`: the delivery goes back as if it had not been tried. */
  readonly outcome: Outcome | 'held'
  readonly exchange?: ExchangeRecord
}

/** What an attempt needs of the runner that makes it. */
export interface AttemptHost {
  readonly source: Source
  /** Called before the source is asked to move the delivery to a run of its own. */
  moving(attempt: RunningAttempt): void
  /** Called before the delivery is settled in a run of its own. */
  moved(attempt: RunningAttempt, run: LeasedRun): void
  /** Runs `work`, which settles the run; the run is not renewed meanwhile. */
  withoutRenewing<T>(held: HeldRun, work: () => Promise<T>): Promise<T>
}

/** An attempt under way. Signals and the like are made on first use, since most handlers use none. */
export class RunningAttempt implements Attempt {
  readonly delivery: LeasedDelivery
  readonly share: Share
  /** Monotonic. */
  readonly startedAt: number
  held: HeldRun
  /** The database knows that the attempt has begun. */
  marked: boolean
  /** Settled from outside (timed out, handed back): what the handler does from then on has no effect. */
  over = false
  /** An operator has cancelled the delivery. */
  cancelled = false
  /** The request and answer of a webhook. */
  exchange: ExchangeRecord | undefined
  /** The handler's transaction settles the delivery, and may hold its run locked. */
  completesIn = false
  readonly #host: AttemptHost
  #controller: AbortController | undefined
  #lightSignal: LightAbortSignal | undefined
  #chosen: Outcome | 'held' | undefined
  /** `completeIn` failed because of a concurrent transaction. */
  #conflict: unknown

  constructor(host: AttemptHost, share: Share, held: HeldRun, delivery: LeasedDelivery, startedAt: number) {
    this.#host = host
    this.share = share
    this.held = held
    this.delivery = delivery
    this.startedAt = startedAt
    this.marked = held.run.suspect
  }

  get subscription(): string {
    return this.share.subscription.name
  }

  get number(): number {
    return this.delivery.attempt
  }

  get failures(): number {
    return this.delivery.failures
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    return this.#controller.signal
  }

  /** The same as `signal`, but cheaper to make: each webhook needs one. */
  get lightSignal(): LightAbortSignal {
    this.#lightSignal ??= new LightAbortSignal()
    return this.#lightSignal
  }

  snooze(ms: number): void {
    if (typeof ms !== 'number' || Number.isNaN(ms)) throw badOption('ms', 'a number', ms)
    this.#chosen = { kind: 'snoozed', afterMs: Math.round(Math.max(0, Math.min(ms, snoozeMsMax))) }
  }

  bury(reason: string): void {
    this.#chosen = { kind: 'buried', reason: toReason(reason) }
  }

  /** Takes effect when the function that makes the attempt returns. */
  conclude({ outcome, exchange }: Conclusion): void {
    this.#chosen = outcome
    this.exchange = exchange
  }

  async completeIn(tx: CallerTransaction): Promise<void> {
    checkTransaction(tx)
    const { source } = this.#host
    const { delivery } = this
    if (this.over) throw this.#leaseLost()
    this.#host.moving(this)
    const isolated = await source.isolate(delivery)
    if (isolated === undefined) throw this.#leaseLost()
    const { run, mark } = isolated
    if (run !== delivery.run) this.#host.moved(this, run)
    this.completesIn = true
    const completion = { delivery, mark, ...this.timing(performance.now()) }
    const complete = () => source.completeIn(tx, completion)
    const completed = await this.#host.withoutRenewing(this.held, complete).catch((error: unknown) => {
      if (isConflict(error)) this.#conflict = error
      throw error
    })
    if (!completed) throw this.#leaseLost()
  }

  /** The outcome when the handler returns: success, unless it chose otherwise or its transaction did not commit. */
  async outcome(): Promise<Outcome | 'held' | 'already settled'> {
    if (!this.completesIn) return this.#chosen ?? succeeded
    if (await this.settledByTransaction()) return 'already settled'
    if (this.#conflict !== undefined) return this.failure(this.#conflict)
    return { kind: 'failed', reason: 'The transaction that completed it was not committed' }
  }

  /** The outcome when the handler throws. A transaction that failed only because of concurrent ones counts no failure. */
  failure(error: unknown): Outcome {
    const uncounted = this.completesIn && (this.#conflict !== undefined || isConflict(error))
    return { kind: 'failed', reason: describeError(error), uncounted }
  }

  /** Whether `outcome` is known without asking the source. */
  get plain(): boolean {
    return !this.completesIn && this.#chosen === undefined
  }

  /** Also after a throw: the handler's transaction may have committed before, and has then settled the delivery. */
  async settledByTransaction(): Promise<boolean> {
    return this.completesIn && (await this.#host.source.isCompleted(this.delivery))
  }

  abort(reason: Error): void {
    this.#lightSignal?.abort()
    this.#controller ??= new AbortController()
    this.#controller.abort(reason)
  }

  timing(now: number): Timing {
    return {
      startedAfterMs: Math.max(0, Math.round(this.startedAt - this.held.leasedAt)),
      executionMs: Math.max(0, Math.round(now - this.startedAt)),
    }
  }

  #leaseLost(): PosthornError {
    const state = 'another worker’s, or settled'
    return new PosthornError('LEASE_LOST', { eventId: this.delivery.event.id, state })
  }
}

export const succeeded: Outcome = { kind: 'succeeded' }
const snoozeMsMax = 365 * 24 * 60 * 60 * 1000
