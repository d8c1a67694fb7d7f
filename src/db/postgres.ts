import type pg from 'pg'
import { PosthornError } from '../errors.ts'
import { type Commit, CommitKinds, commitOf } from './commit-kinds.ts'
import { type CommitWatch, watchCommits } from './commit-watch.ts'
import type {
  CloseOptions,
  Connection,
  Database,
  Listening,
  NotificationListener,
  Queryable,
  QueryResult,
  Statement,
  TransactionOptions,
} from './database.ts'
import { breaksConnection, inDoubt, refusesStartupSettings, translate, unavailable } from './failure.ts'
import { Lender } from './lender.ts'
import { Listener } from './listener.ts'
import type { Loan, Submission } from './loan.ts'
import { createPool } from './pool.ts'
import { checkPostgresOptions, type PostgresOptions, type PostgresSettings } from './postgres-options.ts'
import { PrimaryClient } from './primary.ts'
import {
  beginWith,
  retryConflicts,
  runOnce,
  runTransaction,
  type TransactionSettings,
  type UsualLimits,
} from './transaction.ts'

export type { PostgresOptions } from './postgres-options.ts'

/** `synced`: an answered commit is on disk. `unsafe`: a crash of the server may lose it. */
type Durability = 'synced' | 'unsafe'

export interface PostgresDatabase extends Database {
  readonly durability: Durability
  /** As PostgreSQL writes it: `18.4`. */
  readonly serverVersion: string
  /** The hosts of the URL, if it names several. */
  readonly hosts: readonly string[]
  /** How many connections are free, how many are in use, and how many calls wait for one. */
  readonly connections: { readonly idle: number; readonly used: number; readonly waiting: number }
  /** Called for each call with how long it waited for a connection, whether or not it got one. */
  waited: ((ms: number) => void) | undefined
  /** Called when the database answers again after a connection was lost. It may be another server. */
  reconnected: (() => void) | undefined
  /** Runs `work` on a connection outside the pool, without a transaction or a time limit. */
  session<T>(work: (connection: Queryable) => Promise<T>): Promise<T>
  /** A write found the disk full lately. */
  readonly isDiskFull: boolean
}

/**
 * Connects, and refuses a server that is too old. A new connection is given the time limits of statements as settings.
 * PgBouncer refuses or drops such settings, and a plain SET would stay on a connection that others share. Then each
 * transaction sets the limits for itself, and a single statement outside a transaction has only the driver's limit.
 */
export async function openPostgres(options: PostgresOptions): Promise<PostgresDatabase> {
  const settings = checkPostgresOptions(options)
  try {
    return await openPool(settings, { limitsAtStartup: true })
  } catch (error) {
    if (!refusesStartupSettings(error)) throw error
    return await openPool(settings, { limitsAtStartup: false })
  }
}

/** The driver waits longer than the server: a timeout by the server leaves the connection usable, one by the driver does not. */
const driverSlackMs = 2_000
const serverVersionMin = 140_000

const inspectServer = `
  select
    current_setting('server_version_num')::int as version,
    pg_is_in_recovery() as "isStandby",
    split_part(current_setting('server_version'), ' ', 1) as "versionText",
    current_setting('fsync') = 'on' and current_setting('synchronous_commit') <> 'off' as synced,
    (select setting::int from pg_settings where name = 'statement_timeout') as "statementTimeoutMs"`

interface Server {
  version: number
  isStandby: boolean
  versionText: string
  synced: boolean
  statementTimeoutMs: number
}

async function openPool(
  settings: PostgresSettings,
  { limitsAtStartup }: { limitsAtStartup: boolean },
): Promise<PostgresDatabase> {
  const pool = settings.pool ?? createPool(settings, limitsAtStartup)
  const database = new PooledDatabase(pool, settings)
  try {
    await database.inspect()
    return database
  } catch (error) {
    await database.close()
    throw error
  }
}

class PooledDatabase implements PostgresDatabase {
  readonly schema: string
  durability: Durability = 'unsafe'
  serverVersion = 'unknown'
  waited: ((ms: number) => void) | undefined
  reconnected: (() => void) | undefined

  readonly #lender: Lender
  readonly #settings: PostgresSettings
  readonly #timeoutMs: number
  readonly #listenings = new Set<Listening>()
  readonly #commits: CommitWatch
  readonly #commitKinds: CommitKinds
  #limits: UsualLimits
  #closing: Promise<void> | undefined

  constructor(pool: pg.Pool, settings: PostgresSettings) {
    this.schema = settings.schema
    this.#settings = settings
    this.#commitKinds = new CommitKinds(settings.schema)
    this.#limits = { ...settings, limitsHold: false }
    this.#timeoutMs = settings.statementTimeoutMs + driverSlackMs
    this.#lender = new Lender({
      pool,
      settings,
      newClient: () => this.#newClient('probe'),
      waited: (ms) => this.waited?.(ms),
      reconnected: () => this.reconnected?.(),
    })
    this.#commits = watchCommits({ newClient: () => this.#newClient('probe'), log: settings.log })
  }

  async inspect(): Promise<void> {
    const { rows } = await this.query<Server>(inspectServer)
    const server = rows[0] as Server
    if (server.version < serverVersionMin) {
      throw new PosthornError('SERVER_TOO_OLD', { version: server.versionText })
    }
    if (server.isStandby) throw unavailable(new Error('it is a standby and takes no writes'))
    this.serverVersion = server.versionText
    this.durability = server.synced ? 'synced' : 'unsafe'
    const limitsHold = server.statementTimeoutMs === this.#settings.statementTimeoutMs
    this.#limits = { ...this.#settings, limitsHold }
  }

  get hosts(): readonly string[] {
    return this.#settings.primary.severalHosts
  }

  get connections() {
    return this.#lender.connections
  }

  get isDiskFull(): boolean {
    return this.#lender.isDiskFull
  }

  async query<Row = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
  ): Promise<QueryResult<Row>> {
    const { rows, rowCount } = await this.#submit({ text, values }, this.#commitKinds.ofText(text))
    return { rows: rows as Row[], rowCount }
  }

  async run<Row extends readonly unknown[]>(
    statement: Statement,
    values: readonly unknown[],
  ): Promise<Row[]> {
    const commit = this.#commitKinds.ofStatement(statement)
    const { rows } = await retryConflicts(() => this.#submit(this.#submission(statement, values), commit))
    return rows as unknown as Row[]
  }

  async once<Row extends readonly unknown[]>(
    statement: Statement,
    values: readonly unknown[],
    options: TransactionOptions,
  ): Promise<Row[]> {
    const settings = this.#transactionSettings(options)
    const submission = this.#submission(statement, values)
    const rows = await retryConflicts(() =>
      this.#lend(commitOf(options), (loan) =>
        loan.isPipelined
          ? runOnce(loan, settings, submission)
          : runTransaction<readonly unknown[]>(loan, settings, (tx) => tx.run(statement, values)),
      ),
    )
    return rows as Row[]
  }

  async transaction<T>(work: (tx: Connection) => Promise<T>, options: TransactionOptions = {}): Promise<T> {
    const settings = this.#transactionSettings(options)
    return retryConflicts(() => this.#lend(commitOf(options), (loan) => runTransaction(loan, settings, work)))
  }

  /** While commits stall, work that commits durably is refused. */
  async #lend<T>(commit: Commit, work: (loan: Loan) => Promise<T>): Promise<T> {
    if (commit === 'none') return this.#lender.lend(work)
    if (this.#commits.isStalled)
      throw unavailable(new Error('commits wait for a synchronous standby that is away'))
    return this.#lender.lend((loan) => this.#commits.follow(loan, () => work(loan)))
  }

  #transactionSettings(options: TransactionOptions): TransactionSettings {
    const { statementTimeoutMs, readOnly = false } = options
    return {
      readOnly,
      begin: beginWith(options, this.#limits),
      timeoutMs:
        statementTimeoutMs === 0
          ? undefined
          : (statementTimeoutMs ?? this.#settings.statementTimeoutMs) + driverSlackMs,
      submission: this.#submission.bind(this),
    }
  }

  async listen(channel: string, listener: NotificationListener): Promise<Listening> {
    if (this.#closing !== undefined) throw new PosthornError('STOPPED')
    const listening = new Listener({
      channel,
      listener,
      newClient: () => this.#newClient('listener'),
      notify: async (probe) => void (await this.query(`select pg_notify($1, '')`, [probe])),
      log: this.#settings.log,
    })
    this.#listenings.add(listening)
    await listening.started
    return {
      stop: async () => {
        this.#listenings.delete(listening)
        await listening.stop()
      },
    }
  }

  async session<T>(work: (connection: Queryable) => Promise<T>): Promise<T> {
    const client = this.#newClient('session')
    client.on('error', (error) =>
      this.#settings.log.warn({ err: error }, 'A database connection outside the pool was lost'),
    )
    try {
      await client.connect()
    } catch (error) {
      throw unavailable(error)
    }
    try {
      return await work(client as Queryable)
    } finally {
      await client.end()
    }
  }

  close({ withinMs = this.#timeoutMs }: CloseOptions = {}): Promise<void> {
    this.#closing ??= this.#close(Math.min(withinMs, this.#timeoutMs))
    return this.#closing
  }

  async #close(withinMs: number): Promise<void> {
    await Promise.all([...this.#listenings].map((listening) => listening.stop()))
    await this.#commits.stop()
    await this.#lender.close(withinMs)
  }

  async #submit(submission: Submission, commit: Commit): Promise<pg.QueryResult> {
    return this.#lend(commit, async (loan) => {
      try {
        return await loan.query({ ...submission, timeoutMs: this.#timeoutMs })
      } catch (error) {
        // Outside a transaction the statement commits by itself: the connection may have been lost after the commit.
        if (breaksConnection(error) && commit === 'waits') throw inDoubt(error)
        throw translate(error)
      }
    })
  }

  #submission(statement: Statement, values: readonly unknown[]): Submission {
    const name = this.#settings.prepared ? this.#statementName(statement) : undefined
    return { name, text: statement.text, values, rowMode: 'array' }
  }

  /** Two hubs with different schemas may share a connection of the application's pool. */
  #statementName({ name }: Statement): string {
    return this.#settings.pool === undefined ? name : `${this.schema}.${name}`
  }

  #newClient(purpose: string): pg.Client {
    const { client, primary } = this.#settings
    return new PrimaryClient(
      { ...client, application_name: `${client.application_name} ${purpose}` },
      primary,
    )
  }
}
