import { type Config, type PosthornOptions, readConfig } from './config.ts'
import type { EmbeddedServer } from './db/embedded.ts'
import { checkSchema, migrate } from './db/migrate.ts'
import { openDatabase } from './db/open.ts'
import type { PostgresDatabase } from './db/postgres.ts'
import { serverAddresses } from './db/server-address.ts'
import type { Catalogue } from './domain/catalogue.ts'
import { setShard } from './engine/shard.ts'
import { createLogger } from './observe/log.ts'
import { createHub, type Posthorn } from './posthorn.ts'
import { openVault } from './webhooks/send/vault.ts'

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
  readonly embedded: EmbeddedServer | undefined
}

export async function openPosthorn<const C extends Catalogue = Catalogue>(
  options: PosthornOptions<C> = {},
): Promise<OpenedPosthorn<C>> {
  const config = readConfig(options as PosthornOptions)
  const log = createLogger(config.log)
  const { db, embedded, close } = await openDatabase({ ...config, log })
  try {
    await prepareSchema(db, config)
    const vault = await openVault(config.secretKey, embedded?.dataDirectory)
    const databaseAddresses = await serverAddresses(db)
    const catalogue = options.events
    const posthorn = createHub<C>({ config, log, db, embedded, vault, databaseAddresses, catalogue })
    return { posthorn, db, embedded }
  } catch (error) {
    await close()
    throw error
  }
}

async function prepareSchema(db: PostgresDatabase, config: Config): Promise<void> {
  if (config.migrate) await migrate(db)
  else await checkSchema(db)
  await setShard(db, config.shard)
}
