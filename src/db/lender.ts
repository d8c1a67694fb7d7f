import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import { PosthornError } from '../errors.ts'
import { isDiskFull, isServerError, unavailable } from './failure.ts'
import { Loan } from './loan.ts'
import type { PostgresSettings } from './postgres-options.ts'
import { StandbyError } from './primary.ts'
import { Watch } from './watch.ts'

interface LenderOptions {
  readonly pool: pg.Pool
  readonly settings: PostgresSettings
  /** A connection outside the pool. */
  readonly newClient: () => pg.Client
  /** Is called with how long a borrower waited, whether or not it got a connection. */
  readonly waited: (ms: number) => void
  /** Is called when a connection works again after another one was lost. */
  readonly reconnected: () => void
}

/** How long a full disk is believed. Upkeep writes more often than this, and each write finds out anew. */
const fullMs = 10_000

/** Lends connections of a pool. All connections of our own pool are cut when its server is gone. */
export class Lender {
  readonly #options: LenderOptions
  readonly #watch: Watch | undefined
  readonly #clients = new Set<pg.PoolClient>()
  readonly #loans = new Set<Loan>()
  #isClosed = false
  #isLost = false
  #fullAt = Number.NEGATIVE_INFINITY

  constructor(options: LenderOptions) {
    this.#options = options
    const { pool, settings } = options
    // The pool has already dropped the client. Without a listener the event would end the process.
    pool.on('error', this.#onIdleError)
    // The application watches over its own pool.
    if (settings.pool !== undefined) return
    const watch = new Watch({
      probe: () => this.#probe(),
      cut: () => this.#cut(),
      back: () => settings.log.info({}, 'The database answers again'),
    })
    this.#watch = watch
    pool.on('connect', (client) => {
      this.#clients.add(client)
      watch.heard()
    })
    pool.on('remove', (client) => this.#clients.delete(client))
  }

  get connections() {
    const { idleCount: idle, totalCount, waitingCount: waiting } = this.#options.pool
    return { idle, used: totalCount - idle, waiting }
  }

  /** A write found the disk full lately. Reads would not notice. */
  get isDiskFull(): boolean {
    return performance.now() - this.#fullAt < fullMs
  }

  async lend<T>(work: (loan: Loan) => Promise<T>): Promise<T> {
    const loan = await this.#borrow()
    this.#loans.add(loan)
    try {
      const result = await work(loan)
      if (this.#isLost) this.#tellReconnected()
      return result
    } catch (error) {
      if (isDiskFull(error)) this.#fullAt = performance.now()
      throw error
    } finally {
      this.#isLost ||= loan.broken !== undefined
      this.#loans.delete(loan)
      loan.release()
    }
  }

  #tellReconnected(): void {
    this.#isLost = false
    this.#options.reconnected()
  }

  /** Borrowers have `withinMs` to return their connections. */
  async close(withinMs: number): Promise<void> {
    this.#isClosed = true
    const { pool, settings } = this.#options
    // Our own pool keeps its 'error' listener: its connections may still be closing.
    if (settings.pool === undefined) await this.#endPool(withinMs)
    else pool.off('error', this.#onIdleError)
    await this.#watch?.stop()
  }

  async #borrow(): Promise<Loan> {
    if (this.#isClosed) throw new PosthornError('STOPPED')
    const { pool, waited } = this.#options
    const connect = () => pool.connect().catch((error: unknown) => this.#connectElsewhere(error))
    const askedAt = performance.now()
    try {
      if (this.#watch === undefined) return new Loan(await connect())
      // A wait for the pool cannot be cancelled: a connection that comes too late goes back unused.
      const client = await this.#watch.unlessGone(connect, (unused) => unused.release())
      return new Loan(client, this.#watch)
    } catch (error) {
      throw unavailable(error)
    } finally {
      waited(performance.now() - askedAt)
    }
  }

  /** If several hosts are named, another one may have taken over: tries once more at once. */
  #connectElsewhere(error: unknown): Promise<pg.PoolClient> {
    const { pool, settings } = this.#options
    const isReached = isServerError(error) || error instanceof StandbyError
    if (settings.pool !== undefined || !settings.primary.isOneOfSeveral || isReached) throw error
    return pool.connect()
  }

  /** Any answer shows that the server is there, also that it is full or starting. */
  async #probe(): Promise<void> {
    const client = this.#options.newClient()
    client.on('error', () => undefined)
    try {
      await client.connect()
      this.#watch?.heard()
    } catch (error) {
      if (isServerError(error) || error instanceof StandbyError) this.#watch?.heard()
    } finally {
      client.connection.stream.destroy()
    }
  }

  #cut(): void {
    const reason = 'The database does not answer: its connections are cut'
    this.#options.settings.log.warn({ connections: this.#clients.size }, reason)
    for (const loan of this.#loans) loan.destroy(new Error(reason))
    for (const client of this.#clients) client.connection.stream.destroy()
  }

  /** Logs two fields only: the pool attaches the client with its settings to the error. */
  readonly #onIdleError = (error: Error & { code?: string }): void => {
    this.#isLost = true
    const { code, message: reason } = error
    this.#options.settings.log.warn({ code, reason }, 'An idle database connection was lost')
  }

  /** Waits for statements under way, and cuts those that take too long. */
  async #endPool(withinMs: number): Promise<void> {
    const { pool, settings } = this.#options
    const returned = new AbortController()
    const overdue = delay(withinMs, undefined, { signal: returned.signal }).catch(() => undefined)
    await Promise.race([pool.end(), overdue])
    returned.abort()
    if (this.#loans.size === 0) return
    const statements = [...this.#loans].map((loan) => loan.underWay ?? 'none')
    settings.log.warn({ statements }, 'Closing the database cut statements that were still under way')
    for (const loan of this.#loans) loan.destroy(new Error('The database was closed'))
  }
}
