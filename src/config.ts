import { hostname } from 'node:os'
import type pg from 'pg'
import { readCidrs } from './dispatch/allowed-cidrs.ts'
import { parseVaultKeys } from './dispatch/vault.ts'
import type { Catalogue } from './domain/catalogue.ts'
import * as retention from './domain/retention.ts'
import { integer, webhookTimeoutMsDefault, webhookTimeoutMsRange } from './domain/subscription.ts'
import { toDetail } from './domain/text.ts'
import { PosthornError } from './errors.ts'
import type { LogOption } from './observe/log.ts'

/** Every option: its default, its name in the environment, and its check. docs/reference/options.md lists the same. */
export interface PosthornOptions<C extends Catalogue = Catalogue> extends retention.RetentionOptions {
  /** A URL, connection parameters or your own `pg.Pool`. Nothing: DATABASE_URL, else the embedded database. */
  readonly database?: string | pg.PoolConfig | pg.Pool | undefined
  /** Where the embedded database keeps its data (POSTHORN_DATA_DIR). Default `./posthorn-data`. */
  readonly dataDirectory?: string
  /** The schema that holds all tables. Default `posthorn`. */
  readonly schema?: string
  /** 0 to 1023: the high bits of event ids. Fixed when the schema is created. Default 0. */
  readonly shard?: number
  /** The typed catalogue of events; without one any type is accepted. */
  readonly events?: C
  /** Bury events that no subscription wants, instead of completing them. Default `false`. */
  readonly requireRoute?: boolean
  /** Apply pending migrations when opening. Default `true`. */
  readonly migrate?: boolean
  /** Run reclaim, expiry and the other upkeep in this process. Default `true`. */
  readonly upkeep?: boolean
  /** Send webhooks from this process. Default `true`. */
  readonly dispatcher?: boolean
  /**
   * What secrets are stored encrypted with (POSTHORN_SECRET_KEY): 32 bytes as base64 or hex; several with commas between
   * them, the newest first. With the embedded database a key is made unless one is given.
   */
  readonly secretKey?: string
  /** Private networks that webhooks may go to (POSTHORN_ALLOW_CIDRS): `10.0.0.0/8, 127.0.0.1`. Default none. */
  readonly allowCidrs?: string | readonly string[]
  /** How long a webhook may take, unless its subscriber says (WEBHOOK_TIMEOUT_MS). Default 10,000. */
  readonly webhookTimeoutMs?: number
  /** How many deliveries of one webhook subscriber are leased at once, at most (BATCH_SIZE). Default 20. */
  readonly batchSize?: number
  /** `false`, a level (LOG_LEVEL), or your own pino. Default `warn`. */
  readonly log?: LogOption
  /** How this process is called in the audit. Default `hostname:pid`. */
  readonly workerId?: string
  /** Polling while busy, in ms (POLL_INTERVAL_MS). Default 100. */
  readonly pollMs?: number
  /** Polling when idle, at most. Default 1,000. */
  readonly idlePollMs?: number
  /** Connections to the database at most. Default 20. */
  readonly poolMax?: number
  /** `false` sends no named statements, for PgBouncer before 1.21. Default `true`. */
  readonly prepared?: boolean
  /** How long one statement may run. Default 10,000. */
  readonly statementTimeoutMs?: number
  /** An attempt that has not ended by then is told as overdue. Default 1,200,000: longer than a handler may take. */
  readonly overdueAfterMs?: number
}

export interface Config extends retention.RetentionConfig {
  readonly database: string | pg.PoolConfig | pg.Pool | undefined
  readonly dataDirectory: string
  readonly schema: string
  readonly shard: number
  readonly requireRoute: boolean
  readonly migrate: boolean
  readonly upkeep: boolean
  readonly dispatcher: boolean
  readonly secretKey: string | undefined
  readonly allowCidrs: readonly string[]
  readonly webhookTimeoutMs: number
  readonly batchSize: number
  readonly log: LogOption
  readonly workerId: string
  readonly pollMs: number
  readonly idlePollMs: number
  readonly poolMax: number
  readonly prepared: boolean
  readonly statementTimeoutMs: number
  readonly overdueAfterMs: number
}

const shardMax = 1023

export function readConfig(
  options: PosthornOptions<Catalogue>,
  env: NodeJS.ProcessEnv = process.env,
): Config {
  for (const name of Object.keys(options)) {
    if (!optionNames.includes(name)) {
      throw new PosthornError('BAD_OPTION', {
        option: name,
        expected: `one of ${optionNames.join(', ')}`,
        value: name,
      })
    }
  }
  const pollMs = integer('pollMs', options.pollMs ?? number(given(env.POLL_INTERVAL_MS)) ?? 100, 1, 60_000)
  return Object.freeze({
    database: options.database ?? databaseUrl(given(env.DATABASE_URL)),
    dataDirectory: text(
      'dataDirectory',
      options.dataDirectory ?? given(env.POSTHORN_DATA_DIR) ?? './posthorn-data',
    ),
    schema: options.schema ?? 'posthorn',
    shard: integer('shard', options.shard ?? 0, 0, shardMax),
    requireRoute: flag('requireRoute', options.requireRoute ?? false),
    migrate: flag('migrate', options.migrate ?? true),
    upkeep: flag('upkeep', options.upkeep ?? true),
    dispatcher: flag('dispatcher', options.dispatcher ?? true),
    secretKey: secretKey(options.secretKey ?? given(env.POSTHORN_SECRET_KEY)),
    allowCidrs: readCidrs(options.allowCidrs ?? given(env.POSTHORN_ALLOW_CIDRS) ?? []),
    webhookTimeoutMs: integer(
      'webhookTimeoutMs',
      options.webhookTimeoutMs ?? number(given(env.WEBHOOK_TIMEOUT_MS)) ?? webhookTimeoutMsDefault,
      ...webhookTimeoutMsRange,
    ),
    batchSize: integer('batchSize', options.batchSize ?? number(given(env.BATCH_SIZE)) ?? 20, 1, 1_000),
    log: level('log', options.log ?? given(env.LOG_LEVEL) ?? 'warn'),
    workerId: text('workerId', options.workerId ?? `${hostname()}:${process.pid}`),
    pollMs,
    idlePollMs: integer('idlePollMs', options.idlePollMs ?? Math.max(1_000, pollMs), pollMs, 60_000),
    poolMax: integer('poolMax', options.poolMax ?? 20, 2, 1_000),
    prepared: flag('prepared', options.prepared ?? true),
    statementTimeoutMs: integer('statementTimeoutMs', options.statementTimeoutMs ?? 10_000, 100, 3_600_000),
    overdueAfterMs: integer('overdueAfterMs', options.overdueAfterMs ?? 1_200_000, 1_000, 31_536_000_000),
    ...retention.readRetention(options, env, text),
  })
}

export const optionNames: readonly string[] = [
  'database',
  'dataDirectory',
  'schema',
  'shard',
  'events',
  'requireRoute',
  'migrate',
  'upkeep',
  'dispatcher',
  'secretKey',
  'allowCidrs',
  'webhookTimeoutMs',
  'batchSize',
  'log',
  'workerId',
  'pollMs',
  'idlePollMs',
  'poolMax',
  'prepared',
  'statementTimeoutMs',
  'overdueAfterMs',
  ...retention.retentionOptionNames,
]

const roles = ['api', 'dispatcher', 'upkeep'] as const
export type Role = (typeof roles)[number]

/** What `posthorn serve` is told by its environment, apart from what it hands on to `createPosthorn`. */
export interface ServerConfig {
  /** 0: any free one. */
  readonly port: number
  readonly host: string
  readonly roles: readonly Role[]
  readonly adminKey: string | undefined
  readonly database: string | undefined
  readonly dataDirectory: string | undefined
  readonly logLevel: string
}

export function readServerConfig(env: NodeJS.ProcessEnv = process.env): ServerConfig {
  return Object.freeze({
    port: readPort(env),
    host: text('HOST', given(env.HOST) ?? '127.0.0.1'),
    roles: rolesOf(given(env.POSTHORN_ROLES) ?? roles.join(',')),
    adminKey: given(env.POSTHORN_ADMIN_KEY),
    database: databaseUrl(given(env.DATABASE_URL)),
    dataDirectory: given(env.POSTHORN_DATA_DIR),
    logLevel: level('LOG_LEVEL', given(env.LOG_LEVEL) ?? 'info'),
  })
}

/** All that a command which calls the server needs to know of it. */
export function readPort(env: NodeJS.ProcessEnv = process.env): number {
  return port(given(env.PORT) ?? '8080')
}

export const databaseVariables: readonly string[] = ['DATABASE_URL', 'POSTHORN_DATA_DIR']

export const serverVariables: readonly string[] = [
  'PORT',
  'HOST',
  'POSTHORN_ROLES',
  'POSTHORN_ADMIN_KEY',
  'DATABASE_URL',
  'POSTHORN_DATA_DIR',
  'LOG_LEVEL',
]

/** With what `serve` hands on to the hub without looking at it. */
export const environmentVariables: readonly string[] = [
  ...serverVariables,
  'POSTHORN_SECRET_KEY',
  'POSTHORN_ALLOW_CIDRS',
  'WEBHOOK_TIMEOUT_MS',
  'BATCH_SIZE',
  'POLL_INTERVAL_MS',
  ...retention.retentionVariables,
]

/** A variable that is set to nothing is how many files of settings leave one out. */
function given(value: string | undefined): string | undefined {
  return value === '' ? undefined : value
}

function port(value: string): number {
  if (/^\d{1,5}$/.test(value) && Number(value) <= 65_535) return Number(value)
  throw new PosthornError('BAD_OPTION', { option: 'PORT', expected: 'a port from 0 to 65535', value })
}

/**
 * The driver would take other texts for the name of a database on a host called base. Paths of sockets are its own
 * second form. Nothing of what was given is shown but the scheme: a password may stand anywhere in it.
 */
function databaseUrl(value: string | undefined): string | undefined {
  if (value === undefined || /^(\/|socket:)/.test(value)) return value
  const scheme = /^[a-z][a-z0-9+.-]*:\/\//i.exec(value)?.[0].toLowerCase()
  const isOurs = scheme === 'postgres://' || scheme === 'postgresql://'
  if (isOurs && isReadable(value)) return value
  throw new PosthornError('BAD_OPTION', {
    option: 'DATABASE_URL',
    expected: 'a postgres:// or postgresql:// URL',
    value: isOurs ? 'one that cannot be read' : scheme === undefined ? 'something else' : `${scheme}…`,
  })
}

/** As the driver reads it, for which a URL may have a user and no host. */
function isReadable(url: string): boolean {
  try {
    const { username, password } = new URL(url.replaceAll(' ', '%20').replace('@/', '@host/'))
    // Of a percent sign without two digits the driver makes one that it can read.
    const percents = /%(?![0-9a-f]{2})/gi
    for (const part of [username, password]) decodeURIComponent(part.replace(percents, '%25'))
    return true
  } catch {
    return false
  }
}

/** Its form is checked here, its value is shown nowhere. */
function secretKey(value: string | undefined): string | undefined {
  if (value !== undefined) parseVaultKeys(value)
  return value
}

function rolesOf(list: string): Role[] {
  const asked = list.split(',').map((role) => role.trim())
  const stranger = asked.find((role) => !roles.some((known) => known === role))
  if (stranger === undefined) return roles.filter((role) => asked.includes(role))
  const expected = `a list of ${roles.join(', ')}`
  throw new PosthornError('BAD_OPTION', { option: 'POSTHORN_ROLES', expected, value: stranger || 'nothing' })
}

const logLevels: readonly string[] = ['silent', 'fatal', 'error', 'warn', 'info', 'debug', 'trace']

function level<Value extends LogOption>(option: string, value: Value): Value {
  if (typeof value !== 'string' || logLevels.includes(value)) return value
  const expected = `one of ${logLevels.join(', ')}`
  throw new PosthornError('BAD_OPTION', { option, expected, value: toDetail(value) })
}

function number(value: string | undefined): number | undefined {
  return value === undefined ? undefined : Number(value)
}

function text(option: string, value: unknown): string {
  if (typeof value === 'string' && value.length > 0 && value.length <= 255) return value
  throw new PosthornError('BAD_OPTION', { option, expected: '1 to 255 characters', value: toDetail(value) })
}

function flag(option: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value
  throw new PosthornError('BAD_OPTION', { option, expected: 'true or false', value: toDetail(value) })
}
