import type pg from 'pg'
import { PosthornError } from '../errors.ts'
import type { DatabaseLog } from './database.ts'
import type { EmbeddedServer } from './embedded.ts'
import { openPostgres, type PostgresDatabase } from './postgres.ts'

interface OpenOptions {
  /** Undefined: the embedded server. */
  readonly database: string | pg.PoolConfig | pg.Pool | undefined
  readonly dataDirectory: string
  readonly schema: string
  readonly poolMax: number
  readonly prepared: boolean
  readonly statementTimeoutMs: number
  readonly log: DatabaseLog & { info(line: string): void }
  /** `existing`: refuses a data directory without a database instead of making one. Default `any`. */
  readonly embedded?: 'any' | 'existing'
}

export interface OpenedDatabase {
  readonly db: PostgresDatabase
  /** The embedded server, if no other database was named. */
  readonly embedded: EmbeddedServer | undefined
  /** Closes the database and leaves the embedded server. The last process that leaves shuts it down. */
  close(): Promise<void>
}

/** Opens the database that is named, or the embedded one. A second process joins the embedded server of the first. */
export async function openDatabase(options: OpenOptions): Promise<OpenedDatabase> {
  const { database } = options
  if (database !== undefined) return open(options, database)
  const embedded = await startEmbeddedServer(options)
  try {
    return await open(options, embedded.connection, embedded)
  } catch (error) {
    await embedded.stop()
    throw error
  }
}

async function open(
  { schema, poolMax, prepared, statementTimeoutMs, log }: OpenOptions,
  database: string | pg.PoolConfig | pg.Pool,
  embedded?: EmbeddedServer,
): Promise<OpenedDatabase> {
  const address = isPool(database) ? { pool: database } : { connection: database }
  const db = await openPostgres({ schema, poolMax, prepared, statementTimeoutMs, log, ...address })
  const close = async () => {
    await db.close()
    await embedded?.stop()
  }
  return { db, embedded, close }
}

/** Judged by its shape, not its class: an application with its own copy of `pg` has its own class of pools. */
function isPool(database: string | pg.PoolConfig | pg.Pool): database is pg.Pool {
  return typeof database === 'object' && 'connect' in database && typeof database.connect === 'function'
}

/** Loads the code of the embedded server only here: most hubs use another server. */
async function startEmbeddedServer(options: OpenOptions): Promise<EmbeddedServer> {
  const { dataDirectory, log } = options
  const { startEmbedded } = await import('./embedded.ts')
  const { hasCluster } = await import('./embedded/cluster.ts')
  if (options.embedded === 'existing' && !(await hasCluster(dataDirectory))) {
    const reason =
      'there is no database in it yet: run posthorn serve to make one, or set DATABASE_URL to another'
    throw new PosthornError('DATA_DIRECTORY_UNUSABLE', { directory: dataDirectory, reason })
  }
  return startEmbedded({ dataDirectory, log: (line) => log.info(line) })
}
