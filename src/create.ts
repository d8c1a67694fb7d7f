import pg from 'pg'
import { type Config, type PosthornOptions, readConfig } from './config.ts'
import type { EmbeddedServer } from './db/embedded.ts'
import { checkSchema, migrate } from './db/migrate.ts'
import { openPostgres, type PostgresDatabase } from './db/postgres.ts'
import type { Catalogue } from './domain/catalogue.ts'
import { createLogger, type Logger } from './observe/log.ts'
import { setShard } from './operations/shard.ts'
import { Posthorn } from './posthorn.ts'

/** Opens the database, the embedded one if none is named, and brings its schema up to date. */
export async function createPosthorn<const C extends Catalogue = Catalogue>(
  options: PosthornOptions<C> = {},
): Promise<Posthorn<C>> {
  return (await openPosthorn(options)).posthorn
}

/** What tests need besides the hub itself. */
export interface OpenedPosthorn<C extends Catalogue> {
  readonly posthorn: Posthorn<C>
  readonly db: PostgresDatabase
}

export async function openPosthorn<const C extends Catalogue = Catalogue>(
  options: PosthornOptions<C> = {},
): Promise<OpenedPosthorn<C>> {
  const config = readConfig(options as PosthornOptions)
  const log = createLogger(config.log)
  const embedded = config.database === undefined ? await startEmbeddedServer(config, log) : undefined
  try {
    const db = await openDatabase(config, log, embedded)
    try {
      await prepareSchema(db, config)
      const posthorn = new Posthorn<C>({ config, log, db, embedded, catalogue: options.events })
      return { posthorn, db }
    } catch (error) {
      await db.close()
      throw error
    }
  } catch (error) {
    await embedded?.stop()
    throw error
  }
}

/** Loaded only when used: most hubs run on a server of their own. */
async function startEmbeddedServer(config: Config, log: Logger): Promise<EmbeddedServer> {
  const { startEmbedded } = await import('./db/embedded.ts')
  return startEmbedded({ dataDirectory: config.dataDirectory, log: (line) => log.info(line) })
}

function openDatabase(
  config: Config,
  log: Logger,
  embedded: EmbeddedServer | undefined,
): Promise<PostgresDatabase> {
  const { schema, poolMax, prepared, statementTimeoutMs, database } = config
  const shared = { schema, poolMax, prepared, statementTimeoutMs, log }
  if (database instanceof pg.Pool) return openPostgres({ ...shared, pool: database })
  return openPostgres({ ...shared, connection: embedded?.connection ?? (database as string | pg.PoolConfig) })
}

async function prepareSchema(db: PostgresDatabase, config: Config): Promise<void> {
  if (config.migrate) await migrate(db)
  else await checkSchema(db)
  await setShard(db, config.shard)
}
