import { hostname } from 'node:os'
import type pg from 'pg'
import { checkDatabaseUrl } from './db/database-url.ts'
import { quoteSchema } from './db/identifier.ts'
import { readCidrs } from './dispatch/allowed-cidrs.ts'
import { parseVaultKeys } from './dispatch/vault.ts'
import type { Catalogue } from './domain/catalogue.ts'
import { checkOptions, type NamesOf } from './domain/known-names.ts'
import * as retention from './domain/retention.ts'
import { type Setting, settingOf, wholeSetting } from './domain/setting.ts'
import { integer, webhookTimeoutMsDefault, webhookTimeoutMsRange } from './domain/subscription.ts'
import { toDetail } from './domain/text.ts'
import { PosthornError } from './errors.ts'
import { isLogger, type LogOption } from './observe/log.ts'

/** Every option: its default, its name in the environment, and its check. docs/reference/options.md lists the same. */
export interface PosthornOptions<C extends Catalogue = Catalogue> extends retention.RetentionOptions {
  /** A URL, connection parameters or your own `pg.Pool`. Nothing: DATABASE_URL, else the embedded database. */
  readonly database?: string | pg.PoolConfig | pg.Pool | undefined
  /** Where the embedded database keeps its data (POSTHORN_DATA_DIR). Default `./posthorn-data`. */
  readonly dataDirectory?: string
  /** The schema that holds all tables (POSTHORN_SCHEMA). Default `posthorn`. */
  readonly schema?: string
  /** 0 to 1023: the high bits of event ids. Fixed when the schema is created. Default 0. */
  readonly shard?: number
  /** The typed catalogue of events; without one any type is accepted. */
  readonly events?: C
  /** Bury events that no subscription wants, instead of completing them. Default `false`. */
  readonly requireRoute?: boolean
  /** Apply pending migrations when opening (POSTHORN_MIGRATE). Default `true`. */
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
  /** Connections to the database at most (POSTHORN_POOL_MAX). Default 20. */
  readonly poolMax?: number
  /** `false` sends no named statements, for PgBouncer before 1.21 (POSTHORN_PREPARED). Default `true`. */
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
const [webhookTimeoutMsMin, webhookTimeoutMsMax] = webhookTimeoutMsRange
const webhookTimeoutMs = {
  usual: webhookTimeoutMsDefault,
  min: webhookTimeoutMsMin,
  max: webhookTimeoutMsMax,
}

export function readConfig(
  options: PosthornOptions<Catalogue>,
  env: NodeJS.ProcessEnv = process.env,
): Config {
  checkOptions(options, optionTable, 'createPosthorn')
  checkCatalogue(options.events)
  const setting = (option: keyof PosthornOptions, variable: string) =>
    settingOf(option, options[option], variable, env)
  const pollMs = wholeSetting(setting('pollMs', 'POLL_INTERVAL_MS'), { usual: 100, min: 1, max: 60_000 })
  return Object.freeze({
    database: databaseOption(options.database) ?? checkDatabaseUrl(given(env.DATABASE_URL)),
    dataDirectory: textSetting(setting('dataDirectory', 'POSTHORN_DATA_DIR'), './posthorn-data'),
    schema: schemaSetting(setting('schema', 'POSTHORN_SCHEMA')),
    shard: integer('shard', options.shard ?? 0, 0, shardMax),
    requireRoute: flag('requireRoute', options.requireRoute ?? false),
    migrate: flagSetting(setting('migrate', 'POSTHORN_MIGRATE'), true),
    upkeep: flag('upkeep', options.upkeep ?? true),
    dispatcher: flag('dispatcher', options.dispatcher ?? true),
    secretKey: secretKey(setting('secretKey', 'POSTHORN_SECRET_KEY')),
    allowCidrs: allowedCidrs(setting('allowCidrs', 'POSTHORN_ALLOW_CIDRS')),
    webhookTimeoutMs: wholeSetting(setting('webhookTimeoutMs', 'WEBHOOK_TIMEOUT_MS'), webhookTimeoutMs),
    batchSize: wholeSetting(setting('batchSize', 'BATCH_SIZE'), { usual: 20, min: 1, max: 1_000 }),
    log: logOption(setting('log', 'LOG_LEVEL')),
    workerId: text('workerId', options.workerId ?? `${hostname()}:${process.pid}`),
    pollMs,
    idlePollMs: integer('idlePollMs', options.idlePollMs ?? Math.max(1_000, pollMs), pollMs, 60_000),
    poolMax: wholeSetting(setting('poolMax', 'POSTHORN_POOL_MAX'), { usual: 20, min: 2, max: 1_000 }),
    prepared: flagSetting(setting('prepared', 'POSTHORN_PREPARED'), true),
    statementTimeoutMs: integer('statementTimeoutMs', options.statementTimeoutMs ?? 10_000, 100, 3_600_000),
    overdueAfterMs: integer('overdueAfterMs', options.overdueAfterMs ?? 1_200_000, 1_000, 31_536_000_000),
    ...retention.readRetention(options, env, text),
  })
}

const optionTable: NamesOf<PosthornOptions> = {
  database: true,
  dataDirectory: true,
  schema: true,
  shard: true,
  events: true,
  requireRoute: true,
  migrate: true,
  upkeep: true,
  dispatcher: true,
  secretKey: true,
  allowCidrs: true,
  webhookTimeoutMs: true,
  batchSize: true,
  log: true,
  workerId: true,
  pollMs: true,
  idlePollMs: true,
  poolMax: true,
  prepared: true,
  statementTimeoutMs: true,
  overdueAfterMs: true,
  ...retention.retentionOptions,
}

export const optionNames: readonly string[] = Object.keys(optionTable)

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
  readonly logLevel: string
}

export function readServerConfig(env: NodeJS.ProcessEnv = process.env): ServerConfig {
  return Object.freeze({
    port: readPort(env),
    host: text('HOST', given(env.HOST) ?? '127.0.0.1'),
    roles: rolesOf(given(env.POSTHORN_ROLES) ?? roles.join(',')),
    adminKey: given(env.POSTHORN_ADMIN_KEY),
    database: checkDatabaseUrl(given(env.DATABASE_URL)),
    logLevel: level('LOG_LEVEL', given(env.LOG_LEVEL) ?? 'info'),
  })
}

/** All that a command which calls the server needs to know of it. */
export function readPort(env: NodeJS.ProcessEnv = process.env): number {
  return port(given(env.PORT) ?? '8080')
}

export const databaseVariables: readonly string[] = ['DATABASE_URL', 'POSTHORN_DATA_DIR', 'POSTHORN_SCHEMA']

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
  'POSTHORN_SCHEMA',
  'POSTHORN_MIGRATE',
  'POSTHORN_POOL_MAX',
  'POSTHORN_PREPARED',
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

/** Its value is not shown: a password may stand in it. */
function databaseOption(value: PosthornOptions['database']): PosthornOptions['database'] {
  if (value == null || typeof value === 'string') return given(value ?? undefined)
  if (typeof value === 'object' && !Array.isArray(value)) return value
  const expected = 'a URL, connection parameters or a pg.Pool'
  throw new PosthornError('BAD_OPTION', { option: 'database', expected, value: `a ${typeof value}` })
}

function checkCatalogue(events: Catalogue | undefined): void {
  if (events == null || typeof events.validate === 'function') return
  const expected = 'a catalogue made by defineEvents'
  throw new PosthornError('BAD_OPTION', { option: 'events', expected, value: toDetail(events) })
}

/** Its form is checked here, its value is shown nowhere. */
function secretKey({ name, value }: Setting): string | undefined {
  if (value === undefined) return undefined
  parseVaultKeys(value as string, name)
  return value as string
}

function allowedCidrs({ name, value = [] }: Setting): readonly string[] {
  return readCidrs(name, value as string | readonly string[])
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
  if (typeof value === 'string' ? logLevels.includes(value) : isLogger(value)) return value
  const expected = `one of ${logLevels.join(', ')}${typeof value === 'string' ? '' : ', false or a logger'}`
  throw new PosthornError('BAD_OPTION', { option, expected, value: toDetail(value) })
}

function logOption({ name, value = 'warn' }: Setting): LogOption {
  return level(name, value as LogOption)
}

function textSetting({ name, value }: Setting, usual: string): string {
  return text(name, value ?? usual)
}

function text(option: string, value: unknown): string {
  if (typeof value === 'string' && value.length > 0 && value.length <= 255) return value
  throw new PosthornError('BAD_OPTION', { option, expected: '1 to 255 characters', value: toDetail(value) })
}

function flagSetting({ name, value, isVariable }: Setting, usual: boolean): boolean {
  if (isVariable && value === 'true') return true
  if (isVariable && value === 'false') return false
  return flag(name, value ?? usual)
}

function schemaSetting({ name, value = 'posthorn' }: Setting): string {
  quoteSchema(value as string, name)
  return value as string
}

function flag(option: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value
  throw new PosthornError('BAD_OPTION', { option, expected: 'true or false', value: toDetail(value) })
}
