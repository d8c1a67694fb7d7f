import { readConfig } from '../config.ts'
import { checkSchema, migrate } from '../db/migrate.ts'
import { type OpenedDatabase, openDatabase } from '../db/open.ts'
import type { PostgresDatabase } from '../db/postgres.ts'
import type { RetentionConfig } from '../domain/retention-times.ts'
import { createLogger } from '../observe/log.ts'
import { createRetention, type Retention } from '../retention/retention.ts'
import { isLogging } from './command.ts'

/** `any` makes the embedded database if there is none; `existing` refuses then. */
interface DatabaseTerms {
  readonly embedded: 'any' | 'existing'
}

/**
 * Opens the database that a server with this environment uses, while one command runs. On the embedded database the command
 * joins the server that runs there, or starts one and stops it afterwards.
 */
export async function withDatabase<T>(
  { embedded }: DatabaseTerms,
  work: (opened: OpenedDatabase) => Promise<T>,
): Promise<T> {
  const config = readConfig(isLogging() ? {} : { log: false })
  // The output of a command may be piped into a program, so the log goes to stderr.
  const log = createLogger(config.log, process.stderr)
  const opened = await openDatabase({ ...config, poolMax: 2, log, embedded })
  try {
    return await work(opened)
  } finally {
    await opened.close()
  }
}

/** The same, with the schema of this version. Only the embedded database is migrated without being asked. */
export async function withSchema<T>(
  terms: DatabaseTerms,
  work: (db: PostgresDatabase) => Promise<T>,
): Promise<T> {
  return withDatabase(terms, async ({ db, embedded }) => {
    await (embedded === undefined ? checkSchema(db) : migrate(db))
    return work(db)
  })
}

/** Runs `work` with the service that keeps and removes old data. Nothing is measured: the command prints the counts. */
export async function withRetention<T>(
  config: RetentionConfig,
  work: (retention: Retention) => Promise<T>,
): Promise<T> {
  const observe = { pruned: () => undefined, failed: () => undefined }
  return withSchema({ embedded: 'existing' }, (db) => work(createRetention({ db, config, observe })))
}
