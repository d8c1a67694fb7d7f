/**
 * Brings the schema up to date by numbered migrations: `0001_baseline/`, `0002_….sql`, forward only. A migration is an
 * SQL file or a folder of SQL files.
 *
 * - The token `__schema__` stands for the quoted name of the schema.
 * - Each migration runs in one transaction, which also inserts its row into the ledger, `__schema__.migrations`.
 * - A migration whose first line is `-- no transaction` runs one statement at a time outside of any transaction, for
 *   `create index concurrently`. It may be interrupted and run again, so its statements must allow that. Each statement
 *   ends with a semicolon at the end of a line, so function bodies are not possible. It needs a direct connection to the
 *   server: a pooler would spread its statements over several.
 * - An applied migration must not change: the ledger has its checksum.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { PosthornError } from '../errors.ts'
import type { Connection, Queryable } from './database.ts'
import { type Migration, readMigrations } from './migration-files.ts'
import type { PostgresDatabase } from './postgres.ts'

interface MigrateOptions {
  /** Returns the SQL that would run, and runs nothing. */
  readonly dryRun?: boolean
  readonly directory?: URL
  /** How long to wait while another process migrates the same schema. Default ten minutes. */
  readonly lockWaitMs?: number
}

interface MigrateResult {
  /** The names of the migrations that this call applied. */
  readonly applied: string[]
  /** The names of the missing migrations: none, except after a dry run. */
  readonly pending: string[]
  readonly sql: string
}

export async function migrate(
  database: PostgresDatabase,
  options: MigrateOptions = {},
): Promise<MigrateResult> {
  const migrations = await readMigrations(options.directory)
  if (options.dryRun === true) {
    const pending = await findPending(database, database.schema, migrations)
    return { applied: [], pending: pending.map(nameOf), sql: script(database.schema, pending) }
  }
  const applied: Migration[] = []
  for (let waitedMs = 0; ; ) {
    const step = await applyNext(database, migrations)
    if (step === 'current')
      return { applied: applied.map(nameOf), pending: [], sql: script(database.schema, applied) }
    if (step !== 'locked') applied.push(step)
    else waitedMs += await waitForOther(database, waitedMs, options.lockWaitMs ?? 600_000)
  }
}

/** Throws unless the schema is exactly what this version of the code expects. */
export async function checkSchema(
  database: PostgresDatabase,
  options: { directory?: URL } = {},
): Promise<void> {
  const pending = await findPending(database, database.schema, await readMigrations(options.directory))
  if (pending.length === 0) return
  const missing = pending.map(nameOf).join(', ')
  throw new PosthornError('SCHEMA_MISSING', { schema: database.schema, missing })
}

/** The same for a process at work: a newer process may have migrated since, and both may work side by side. */
export async function checkReady(database: PostgresDatabase, commit: () => Promise<unknown>): Promise<void> {
  if (database.isDiskFull) throw new PosthornError('DISK_FULL')
  try {
    await checkSchema(database)
  } catch (error) {
    if (!(error instanceof PosthornError && error.code === 'SCHEMA_NEWER')) throw error
  }
  await checkCommits(database, commit)
}

const commitMsMax = 700

/** If commits wait for a standby, only a commit shows whether the standby is there. */
async function checkCommits(database: PostgresDatabase, commit: () => Promise<unknown>): Promise<void> {
  const { rows } = await database.query<{ names: string }>(
    `select current_setting('synchronous_standby_names') as names`,
  )
  if (rows[0]?.names === '') return
  const committing = commit()
  committing.catch(() => undefined)
  const late = delay(commitMsMax, 'late' as const)
  if ((await Promise.race([committing, late])) !== 'late') return
  const reason = `a commit took more than ${commitMsMax} ms: is a synchronous standby away?`
  throw new PosthornError('DATABASE_UNAVAILABLE', { reason })
}

/**
 * The lock is tried again and again instead of waited for. A waiting statement holds a snapshot, and `create index concurrently`
 * waits for all older snapshots: processes that wait for the lock would stop the one that holds it.
 */
const tryLock = `select pg_try_advisory_xact_lock(hashtextextended('posthorn migrations of ' || $1, 0)) as locked`

async function applyNext(
  database: PostgresDatabase,
  migrations: readonly Migration[],
): Promise<Migration | 'current' | 'locked'> {
  const { schema } = database
  const work = async (tx: Connection) => {
    const { rows } = await tx.query<{ locked: boolean }>(tryLock, [schema])
    if (rows[0]?.locked !== true) return 'locked'
    const [next] = await findPending(tx, schema, migrations)
    if (next === undefined) return 'current'
    await createLedger(tx, schema)
    // Without parameters on purpose: the portal of a parametrised select keeps its snapshot until the next
    // statement, and an index built concurrently by the other connection would wait for that snapshot.
    await tx.query('set local idle_in_transaction_session_timeout = 0')
    if (next.transactional) await tx.query(textOf(next, schema))
    else await applyAlone(database, next)
    await tx.query(ledgerEntry(next, schema))
    return next
  }
  return database.transaction(work, { statementTimeoutMs: 0 })
}

async function applyAlone(database: PostgresDatabase, migration: Migration): Promise<void> {
  const statements = textOf(migration, database.schema).split(/;[ \t]*$/m)
  await database.session(async (connection) => {
    for (const statement of statements) {
      if (statement.trim() !== '') await connection.query(statement)
    }
  })
}

async function waitForOther(
  { schema }: PostgresDatabase,
  waitedMs: number,
  lockWaitMs: number,
): Promise<number> {
  if (waitedMs >= lockWaitMs) throw new PosthornError('MIGRATION_LOCKED', { schema, waitedMs })
  const pauseMs = 50 + Math.random() * 100
  await delay(pauseMs)
  return pauseMs
}

async function findPending(
  connection: Queryable,
  schema: string,
  migrations: readonly Migration[],
): Promise<Migration[]> {
  const applied = await readLedger(connection, schema)
  const known = migrations.at(-1)?.number ?? 0
  const found = Math.max(0, ...applied.keys())
  if (found > known) throw new PosthornError('SCHEMA_NEWER', { schema, found, known })
  for (const { number, name, checksum } of migrations) {
    const isChanged = applied.has(number) && applied.get(number) !== checksum
    if (isChanged) throw new PosthornError('MIGRATION_CHANGED', { name, schema })
  }
  return migrations.filter(({ number }) => !applied.has(number))
}

/** The checksums of the migrations that were applied, by their numbers. */
async function readLedger(connection: Queryable, schema: string): Promise<Map<number, string>> {
  const ledger = await connection.query<{ exists: boolean }>('select to_regclass($1) is not null as exists', [
    `${schema}.migrations`,
  ])
  if (ledger.rows[0]?.exists !== true) return new Map()
  const { rows } = await connection.query<{ number: number; checksum: string }>(
    `select number, checksum from ${schema}.migrations`,
  )
  return new Map(rows.map(({ number, checksum }) => [number, checksum]))
}

/** Looks first: `create … if not exists` needs the right to create even if there is nothing to create. */
async function createLedger(connection: Queryable, schema: string): Promise<void> {
  const { rows } = await connection.query<{ schema: boolean; ledger: boolean }>(
    `select to_regnamespace($1) is not null as schema, to_regclass($2) is not null as ledger`,
    [schema, `${schema}.migrations`],
  )
  if (rows[0]?.schema !== true) await connection.query(`create schema ${schema}`)
  if (rows[0]?.ledger !== true) await connection.query(ledgerTable(schema))
}

function ledgerTable(schema: string): string {
  return `create table if not exists ${schema}.migrations (
  number int primary key,
  name text not null,
  checksum text not null,
  applied_at timestamptz not null default clock_timestamp()
);`
}

/** Names are checked and checksums are hexadecimal, so neither can contain a quote. */
function ledgerEntry({ number, name, checksum }: Migration, schema: string): string {
  return `insert into ${schema}.migrations (number, name, checksum) values (${number}, '${name}', '${checksum}');`
}

/** The SQL for an administrator who migrates by hand. It fills the ledger too, so nothing is applied twice. */
function script(schema: string, migrations: readonly Migration[]): string {
  if (migrations.length === 0) return ''
  const parts = [`create schema if not exists ${schema};`, ledgerTable(schema)]
  for (const migration of migrations) {
    const text = `${textOf(migration, schema)}\n${ledgerEntry(migration, schema)}`
    parts.push(migration.transactional ? `begin;\n${text}\ncommit;` : text)
  }
  return `${parts.join('\n\n')}\n`
}

function textOf({ text }: Migration, schema: string): string {
  return text.replaceAll('__schema__', () => schema)
}

function nameOf({ name }: Migration): string {
  return name
}
