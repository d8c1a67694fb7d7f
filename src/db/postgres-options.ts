import pg from 'pg'
import { PosthornError } from '../errors.ts'
import type { DatabaseLog } from './database.ts'
import { urlsOfHosts } from './database-url.ts'
import { quoteSchema } from './identifier.ts'
import { type HostAddress, Primary } from './primary.ts'

/** Where the server is: an address, or the application's own pool, which is never ended here. */
export type PostgresOptions = (
  | { connection: string | pg.PoolConfig; pool?: never }
  | { pool: pg.Pool; connection?: never }
) &
  Partial<Limits> & {
    /** The schema that holds all our tables. Default `posthorn`. */
    readonly schema?: string
    /** How long to wait for the server to accept a connection. Default 2,000. */
    readonly connectTimeoutMs?: number
  }

interface Limits {
  /** Connections at most, apart from one for each listener. Default 20. */
  readonly poolMax: number
  /** How long to wait for a free connection when all are in use. Default 10,000. */
  readonly checkoutTimeoutMs: number
  /** How long one statement may run on the server. Default 10,000. */
  readonly statementTimeoutMs: number
  /** How long a transaction may be idle between two statements: a frozen process then frees its locks. Default 60,000. */
  readonly idleInTransactionMs: number
  /** `false` sends no named statements, which PgBouncer before 1.21 cannot pool. Default `true`. */
  readonly prepared: boolean
  readonly log: DatabaseLog
}

export interface PostgresSettings extends Limits {
  /** The quoted name. */
  readonly schema: string
  readonly pool: pg.Pool | undefined
  /** Enough to connect, without any session setting. */
  readonly client: pg.ClientConfig
  /** Finds the server that takes writes. */
  readonly primary: Primary
}

/** Fills in the defaults. The numbers were checked with the options of the hub. */
export function checkPostgresOptions(options: PostgresOptions): PostgresSettings {
  const clients = addressesOf(options).map(
    (address): pg.ClientConfig => ({
      application_name: 'posthorn',
      ...address,
      connectionTimeoutMillis: options.connectTimeoutMs ?? 2_000,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
    }),
  )
  const client = clients[0] as pg.ClientConfig
  const primary = new Primary(client, clients.map(hostOf))
  return Object.freeze({
    schema: quoteSchema(options.schema ?? 'posthorn'),
    pool: options.pool,
    client,
    primary,
    poolMax: options.poolMax ?? 20,
    checkoutTimeoutMs: options.checkoutTimeoutMs ?? 10_000,
    statementTimeoutMs: options.statementTimeoutMs ?? 10_000,
    idleInTransactionMs: options.idleInTransactionMs ?? 60_000,
    prepared: options.prepared ?? true,
    log: options.log ?? silent,
  })
}

function addressesOf({ connection, pool }: PostgresOptions): pg.ClientConfig[] {
  if (typeof connection === 'string') {
    return urlsOfHosts(connection, 'database').map((connectionString) => ({ connectionString }))
  }
  const config = connection ?? pool?.options
  if (config === undefined || config === null) {
    const expected = 'given, unless pool is'
    throw new PosthornError('BAD_OPTION', { option: 'database', expected, value: connection })
  }
  // A pool hides its password from enumeration, so a spread alone would lose it. Its session settings and the class of
  // its clients are for its own connections only.
  const { Client, Promise: _, types, statement_timeout, query_timeout, ...address } = config as pg.PoolConfig
  return [config.password === undefined ? address : { ...address, password: config.password }]
}

/** Makes a client to read the address. The client does not connect. */
function hostOf(client: pg.ClientConfig): HostAddress {
  try {
    const { host, port } = new pg.Client(client)
    return { host, port }
  } catch {
    // The driver's error holds the whole address, and with it the password.
    const value = client.connectionString?.replace(/:\/\/.*@/, '://***@').replace(/\?.*/, '') ?? client.host
    throw new PosthornError('BAD_OPTION', { option: 'database', expected: 'a postgres:// address', value })
  }
}

const silent: DatabaseLog = { info: () => undefined, warn: () => undefined }
