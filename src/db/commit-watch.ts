import type pg from 'pg'
import type { DatabaseLog } from './database.ts'
import type { Loan } from './loan.ts'

/** A process of the server, at one moment. */
export interface ServerProcess {
  readonly pid: number
  /** The transaction whose commit waits for a synchronous standby, if its statement began about a second ago. */
  readonly waitingTransaction: string | null
}

interface CommitWatchOptions {
  /** Reads all processes that serve this database. */
  readonly ask: () => Promise<readonly ServerProcess[]>
  /** Is called when commits begin to stall, and when they go on again. */
  readonly changed: (isStalled: boolean) => void
  /** Is called when nothing commits any more: the connection for asking can be closed. */
  readonly rest: () => void
}

const tickMs = 250
const slowTicks = 4

/**
 * Tells commits that stall, because a synchronous standby is away, from commits that are slow. A stalled commit is done
 * on the server and may still be lost, so it is never cancelled. Its connection is cut instead: the caller learns that the
 * fate of the commit is unknown, and the server's process goes on waiting. While a commit stalls, no other is begun.
 *
 * A commit stalls if two samples in a row show it waiting. One sample may catch a slow statement in the few milliseconds
 * that its standby takes.
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

  /** Watches a loan until its commit is answered. */
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
    for (const commit of this.#underWay.values()) commit.ticks++
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
    let processes: readonly ServerProcess[]
    try {
      processes = await this.#options.ask()
    } catch {
      // The server does not answer at all: watch.ts deals with that.
      return
    }
    const waiting = processes.filter(({ waitingTransaction }) => waitingTransaction !== null)
    const stalled = waiting.filter(({ waitingTransaction }) =>
      this.#waitedBefore.has(waitingTransaction as string),
    )
    this.#waitedBefore = new Set(waiting.map(({ waitingTransaction }) => waitingTransaction as string))
    const isStalled = stalled.length > 0
    if (isStalled !== this.#isStalled) {
      this.#isStalled = isStalled
      this.#options.changed(isStalled)
    }
    if (!isStalled) return
    const stalledPids = new Set(stalled.map(({ pid }) => pid))
    const knownPids = new Set(processes.map(({ pid }) => pid))
    for (const [loan, { ticks }] of this.#underWay) {
      // A pooler hides which process serves a connection. There, a slow commit counts as stalled while others stall.
      const isBehindPooler = !knownPids.has(loan.serverProcess)
      if (stalledPids.has(loan.serverProcess) || (isBehindPooler && ticks >= slowTicks))
        loan.destroy(new Error('Commits wait for a synchronous standby'))
    }
  }
}

const askTimeoutMs = 1_000

/** Asks on a connection of its own, because all connections of the pool may be waiting. */
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
      const { rows } = await client.query<ServerProcess>({
        text: findProcesses,
        query_timeout: askTimeoutMs,
      } as pg.QueryConfig)
      return rows
    } catch (error) {
      rest()
      throw error
    }
  }
  const changed = (isStalled: boolean) => {
    if (isStalled)
      log.warn({}, 'Commits wait for a synchronous standby that is away: writes are refused until it is back')
    else log.info({}, 'Commits no longer wait for a synchronous standby: writes are accepted again')
  }
  return new CommitWatch({ ask, changed, rest })
}

const findProcesses = `
  select pid, case when wait_event = 'SyncRep' and state_change < clock_timestamp() - interval '900 ms'
    then backend_xid::text end as "waitingTransaction"
  from pg_stat_activity
  where datname = current_database()`
