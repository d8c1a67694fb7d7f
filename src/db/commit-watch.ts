import type pg from 'pg'
import type { DatabaseLog } from './database.ts'
import type { Loan } from './loan.ts'

/** A commit that waits for a synchronous standby. */
export interface WaitingCommit {
  /** The server's process. */
  readonly pid: number
  readonly transactionId: string
}

export interface CommitWatchOptions {
  /** Commits that wait for a synchronous standby at this moment, and whose statement began about a second ago. */
  readonly ask: () => Promise<readonly WaitingCommit[]>
  /** Commits stall, or go on again. */
  readonly changed: (isStalled: boolean) => void
  /** Nobody waits any more. */
  readonly rest: () => void
}

const tickMs = 250
const slowTicks = 4

/**
 * Tells commits that stall, because a synchronous standby is away, from those that are slow. A stalled commit is done
 * on the server and may yet be lost, so it is never cancelled: its caller is told that nobody knows, by cutting
 * the connection, while the server's process goes on waiting. As long as one waits, no other is begun.
 *
 * A commit stalls if two samples in a row show it waiting: one sample may meet a slow statement in the
 * milliseconds that its standby takes.
 */
export class CommitWatch {
  readonly #options: CommitWatchOptions
  readonly #underWay = new Map<Loan, { ticks: number }>()
  /** The transactions that waited at the last sample. */
  #waitedBefore: ReadonlySet<string> = new Set()
  #isStalled = false
  #timer: NodeJS.Timeout | undefined
  #asking: Promise<void> | undefined
  #stopped = false

  constructor(options: CommitWatchOptions) {
    this.#options = options
  }

  get isStalled(): boolean {
    return this.#isStalled
  }

  /** Follows a loan that is going to commit, until it is done. */
  async follow<T>(loan: Loan, work: () => Promise<T>): Promise<T> {
    this.#underWay.set(loan, { ticks: 0 })
    if (!this.#stopped) this.#timer ??= setInterval(() => this.#tick(), tickMs).unref()
    try {
      return await work()
    } finally {
      this.#underWay.delete(loan)
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearInterval(this.#timer)
    await this.#asking
    this.#options.rest()
  }

  #tick(): void {
    for (const one of this.#underWay.values()) one.ticks++
    const isSlow = [...this.#underWay.values()].some(({ ticks }) => ticks >= slowTicks)
    if (isSlow || this.#isStalled) {
      this.#asking ??= this.#ask().finally(() => {
        this.#asking = undefined
      })
    } else if (this.#underWay.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
      this.#options.rest()
    }
  }

  async #ask(): Promise<void> {
    let waiting: readonly WaitingCommit[]
    try {
      waiting = await this.#options.ask()
    } catch {
      // Whether the server is there at all is for another watch to say.
      return
    }
    const stalled = waiting.filter(({ transactionId }) => this.#waitedBefore.has(transactionId))
    this.#waitedBefore = new Set(waiting.map(({ transactionId }) => transactionId))
    const isStalled = stalled.length > 0
    if (isStalled !== this.#isStalled) {
      this.#isStalled = isStalled
      this.#options.changed(isStalled)
    }
    for (const loan of this.#underWay.keys()) {
      if (stalled.some(({ pid }) => pid === loan.serverProcess))
        loan.destroy(new Error('Commits wait for a synchronous standby'))
    }
  }
}

const askTimeoutMs = 1_000

/** Asked on a connection of its own: those of the pool may all be waiting. It is kept while there is reason to ask. */
export function watchCommits({
  newClient,
  log,
}: {
  newClient: () => pg.Client
  log: DatabaseLog
}): CommitWatch {
  let client: pg.Client | undefined
  const rest = () => {
    client?.connection.stream.destroy()
    client = undefined
  }
  const ask = async () => {
    try {
      if (client === undefined) {
        client = newClient()
        client.on('error', rest)
        await client.connect()
      }
      const { rows } = await client.query<WaitingCommit>({
        text: findWaiting,
        query_timeout: askTimeoutMs,
      } as pg.QueryConfig)
      return rows
    } catch (error) {
      rest()
      throw error
    }
  }
  const changed = (isStalled: boolean) => {
    if (isStalled) log.warn({}, 'Commits wait for a synchronous standby that is away: nothing more is stored')
    else log.info({}, 'Commits no longer wait for a synchronous standby')
  }
  return new CommitWatch({ ask, changed, rest })
}

const findWaiting = `
  select pid, backend_xid::text as "transactionId" from pg_stat_activity
  where datname = current_database() and wait_event = 'SyncRep' and backend_xid is not null
    and state_change < clock_timestamp() - interval '900 ms'`
