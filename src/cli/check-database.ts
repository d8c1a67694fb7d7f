import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { ServerConfig } from '../config.ts'
import { type CheckUp, checkUp } from '../db/check-up.ts'
import { findMaker, hasCluster } from '../db/embedded/prospect.ts'
import { migrate } from '../db/migrate.ts'
import type { OpenedDatabase } from '../db/open.ts'
import type { PostgresDatabase } from '../db/postgres.ts'
import { isLocalName } from '../http/gate.ts'
import { anyKeys } from '../keys/api-keys.ts'
import { checkAdminKey } from '../keys/key-ring.ts'
import { withDatabase } from './database.ts'
import { describeFailure } from './failure.ts'
import type { Finding } from './finding.ts'

const clockAheadMsMax = 1_000

/** Made by the first start if need be, so that what counts is the first of its parents that exists. */
export async function checkDirectory(dataDirectory: string): Promise<Finding> {
  const check = 'data directory'
  const directory = resolve(dataDirectory)
  for (let path = directory; ; path = dirname(path)) {
    try {
      await access(path, constants.W_OK | constants.X_OK)
      const says = path === directory ? `${directory} is writable` : `${directory} can be made`
      return { check, state: 'ok', says }
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      if (code === 'ENOENT' && path !== dirname(path)) continue
      return { check, state: 'fail', says: message, fix: 'set POSTHORN_DATA_DIR to a folder of this user' }
    }
  }
}

/** All that can be asked of the database; one finding if it cannot be asked. */
export async function checkDatabase(config: ServerConfig): Promise<Finding[]> {
  const { database, dataDirectory } = config
  try {
    if (database === undefined && !(await hasCluster(dataDirectory))) {
      const { version, kind } = await findMaker(dataDirectory)
      const says = `none yet: PostgreSQL ${version} (${kind === 'path' ? 'from PATH' : kind}) will make it`
      return [{ check: 'database', state: 'ok', says }, ...(await checkKeys(config, undefined))]
    }
    return await withDatabase({ embedded: 'existing' }, (opened) => ask(opened, config))
  } catch (error) {
    const fix =
      database === undefined
        ? 'see what the error says, or set DATABASE_URL to another server'
        : 'check DATABASE_URL, and that its server runs, is no standby and lets this user in'
    return [{ check: 'database', state: 'fail', says: describeFailure(error).text, fix }]
  }
}

async function ask({ db, embedded }: OpenedDatabase, config: ServerConfig): Promise<Finding[]> {
  const found = await checkUp(db)
  const schema = await checkSchema(db)
  return [
    checkServer(db, embedded?.dataDirectory),
    ...checkDurability(found),
    schema,
    checkClock(found),
    checkConnections(found, config.poolMax),
    ...(await checkKeys(config, schema.state === 'ok' ? db : undefined)),
  ]
}

function checkServer(db: PostgresDatabase, directory: string | undefined): Finding {
  const says = `PostgreSQL ${db.serverVersion} answers${directory === undefined ? '' : ` in ${directory}`}`
  return { check: 'database', state: 'ok', says }
}

function checkDurability({ settings }: CheckUp): Finding[] {
  const check = 'durability'
  const isOff = (name: string) => settings[name] === 'off'
  const findings: Finding[] = []
  for (const name of ['fsync', 'synchronous_commit'].filter(isOff)) {
    const says = `${name} is off: a crash can lose events that were acknowledged`
    findings.push({
      check,
      state: 'fail',
      says,
      fix: `alter system set ${name} = on; select pg_reload_conf()`,
    })
  }
  if (isOff('full_page_writes')) {
    const says =
      'full_page_writes is off: a crash can damage tables, unless the file system writes whole pages'
    const fix = 'alter system set full_page_writes = on; select pg_reload_conf()'
    findings.push({ check, state: 'warn', says, fix })
  }
  if (isOff('data_checksums')) {
    const says = 'data checksums are off: damage by the disk would go unseen'
    findings.push({ check, state: 'warn', says, fix: 'stop the server and run pg_checksums --enable' })
  }
  if (findings.length > 0) return findings
  const says = `fsync, full_page_writes and data checksums are on, synchronous_commit is ${settings.synchronous_commit}`
  return [{ check, state: 'ok', says }]
}

async function checkSchema(db: PostgresDatabase): Promise<Finding> {
  const check = 'schema'
  try {
    const { pending } = await migrate(db, { dryRun: true })
    if (pending.length === 0) return { check, state: 'ok', says: `${db.schema} has all migrations` }
    const says = `${db.schema} lacks ${pending.join(', ')}`
    return { check, state: 'fail', says, fix: 'run posthorn migrate, or start posthorn serve' }
  } catch (error) {
    const fix = 'use the version of posthorn that this database was last migrated by'
    return { check, state: 'fail', says: describeFailure(error).text, fix }
  }
}

function checkClock({ clockAheadMs, clockErrorMs }: CheckUp): Finding {
  const offMs = Math.abs(clockAheadMs)
  const direction = clockAheadMs > 0 ? 'ahead of' : 'behind'
  if (offMs - clockErrorMs <= clockAheadMsMax) {
    return {
      check: 'clock',
      state: 'ok',
      says: `the database and this machine agree to ${Math.ceil(offMs)} ms`,
    }
  }
  const says = `the database's clock is ${(offMs / 1000).toFixed(1)} s ${direction} this machine's`
  const fix = 'run an NTP client on both; posthorn goes by the database alone, other programs may not'
  return { check: 'clock', state: 'warn', says, fix }
}

function checkConnections({ connections, connectionsMax }: CheckUp, poolMax: number): Finding {
  const check = 'connections'
  // A hub listens on one more than its pool has.
  const perProcess = poolMax + 1
  const says = `${connections} of ${connectionsMax} are in use, and each process of posthorn takes up to ${perProcess}`
  if (perProcess <= connectionsMax) return { check, state: 'ok', says }
  return {
    check,
    state: 'warn',
    says,
    fix: 'raise max_connections on the server, or lower POSTHORN_POOL_MAX',
  }
}

/** Without a schema to ask there are no keys either. */
async function checkKeys(
  { host, roles, adminKey }: ServerConfig,
  db: PostgresDatabase | undefined,
): Promise<Finding[]> {
  const check = 'keys'
  if (!roles.includes('api')) return []
  if (adminKey !== undefined) return [judgeAdminKey(adminKey)]
  if (db !== undefined && (await anyKeys(db))) {
    return [{ check, state: 'ok', says: 'there are keys: every call needs one' }]
  }
  if (isLocalName(host)) return [{ check, state: 'ok', says: `none: ${host} answers this machine only` }]
  const fix = 'run posthorn keys create --name admin --scopes admin, or set POSTHORN_ADMIN_KEY'
  return [{ check, state: 'fail', says: `none, so that posthorn serve refuses to listen on ${host}`, fix }]
}

function judgeAdminKey(adminKey: string): Finding {
  const check = 'keys'
  try {
    checkAdminKey(adminKey)
    return { check, state: 'ok', says: 'POSTHORN_ADMIN_KEY is set: every call needs a key' }
  } catch (error) {
    return {
      check,
      state: 'fail',
      says: describeFailure(error).text,
      fix: 'openssl rand -hex 32 makes a good one',
    }
  }
}
