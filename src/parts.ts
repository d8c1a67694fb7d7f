import type { Config } from './config.ts'
import type { EmbeddedServer } from './db/embedded.ts'
import type { PostgresDatabase } from './db/postgres.ts'
import type { Vault } from './dispatch/vault.ts'
import type { Catalogue } from './domain/catalogue.ts'
import { checkOptions } from './domain/known-names.ts'
import { integer } from './domain/subscription.ts'
import type { Logger } from './observe/log.ts'

export interface StopOptions {
  /**
   * How long handlers may take to end before they are aborted and handed back. Default 30,000. What is held up by a
   * transaction that the application has not ended is cut about 2 s after that.
   */
  readonly graceMs?: number
}

export function graceMsOf(options: StopOptions): number {
  checkOptions(options, { graceMs: true }, 'stop')
  return integer('graceMs', options.graceMs ?? 30_000, 0, 86_400_000)
}

export interface PosthornParts {
  readonly config: Config
  readonly log: Logger
  readonly db: PostgresDatabase
  readonly embedded: EmbeddedServer | undefined
  readonly catalogue: Catalogue | undefined
  readonly vault: Vault
  readonly databaseAddresses: readonly string[]
}
