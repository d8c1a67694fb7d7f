import pg from 'pg'
import { PosthornError } from '../errors.ts'
import type { DatabaseLog } from './database.ts'
import { urlsOfHosts } from './hosts.ts'
import { quoteSchema } from './identifier.ts'
import { type HostAddress, Primary } from './primary.ts'

/** Where the server is: an address of ours to connect to, or the application's own pool, which we never end. */
export type PostgresOptions = (
  | { connection: string | pg.PoolConfig; pool?: never }
  | { pool: pg.Pool; connection?: never }
) & {
  /** The schema that holds all our tables. Default `posthorn`. */
  readonly schema?: string
  /** Connections at most, apart from one for each listener. Default 20. */
  readonly poolMax?: number
  /** How long to wait for the server to accept a connection. Default 2,000. */
  readonly connectTimeoutMs?: number
  /** How long to wait for a free connection when all are in use. Default 10,000. */
  readonly checkoutTimeoutMs?: number
  /** How long one statement may run on the server. Default 10,000. */
  readonly statementTimeoutMs?: number
  /** How long a transaction may sit between two statements, so that a frozen process frees its locks. Default 60,000. */
  readonly idleInTransactionMs?: number
  /** `false` sends no named statements, which PgBouncer before 1.21 cannot pool. Default `true`. */
  readonly prepared?: boolean
  /** Shown in pg_stat_activity. Default `posthorn`. */
  readonly applicationName?: string
  readonly log?: DatabaseLog
}

export interface PostgresSettings {
  /** Quoted. */
  readonly schema: string
  readonly pool: pg.Pool | undefined
  /** Enough to connect, without any session setting. */
  readonly client: pg.ClientConfig
  /** Which of the servers it names takes writes. */
  readonly primary: Primary
  readonly poolMax: number
  readonly checkoutTimeoutMs: number
  readonly statementTimeoutMs: number
  readonly idleInTransactionMs: number
  readonly prepared: boolean
  readonly log: DatabaseLog
}

export function checkPostgresOptions(options: PostgresOptions): PostgresSettings {
  const connectTimeoutMs = integer('connectTimeoutMs', options.connectTimeoutMs ?? 2_000, { min: 1 })
  const clients = addressesOf(options).map(
    (address): pg.ClientConfig => ({
      application_name: options.applicationName ?? 'posthorn',
      ...address,
      connectionTimeoutMillis: connectTimeoutMs,
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
    poolMax: integer('poolMax', options.poolMax ?? 20, { min: 1, max: 10_000 }),
    checkoutTimeoutMs: integer('checkoutTimeoutMs', options.checkoutTimeoutMs ?? 10_000, { min: 1 }),
    statementTimeoutMs: integer('statementTimeoutMs', options.statementTimeoutMs ?? 10_000, { min: 1 }),
    idleInTransactionMs: integer('idleInTransactionMs', options.idleInTransactionMs ?? 60_000, { min: 1 }),
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
    throw new PosthornError('BAD_OPTION', {
      option: 'database',
      expected: 'given, unless pool is',
      value: connection,
    })
  }
  // A pool hides its password from enumeration, so a spread alone would lose it. Its session settings and
  // its clients' classes are for its own connections.
  const { Client, Promise: _, types, statement_timeout, query_timeout, ...address } = config as pg.PoolConfig
  return [config.password === undefined ? address : { ...address, password: config.password }]
}

/** Making a client connects nothing, but finds an address that cannot be read. */
function hostOf(client: pg.ClientConfig): HostAddress {
  try {
    const { host, port } = new pg.Client(client)
    return { host, port }
  } catch {
    // The driver's error would carry the whole address, and so the password, into logs.
    const value = client.connectionString?.replace(/:\/\/.*@/, '://***@').replace(/\?.*/, '') ?? client.host
    throw new PosthornError('BAD_OPTION', { option: 'database', expected: 'a postgres:// address', value })
  }
}

function integer(
  option: string,
  value: number,
  { min, max = 2 ** 31 - 1 }: { min: number; max?: number },
): number {
  if (Number.isInteger(value) && value >= min && value <= max) return value
  throw new PosthornError('BAD_OPTION', { option, expected: `a whole number from ${min} to ${max}`, value })
}

const silent: DatabaseLog = { info: () => undefined, warn: () => undefined }
