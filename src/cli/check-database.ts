import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { ServerConfig } from '../config.ts'
import { type CheckUp, checkUp } from '../db/check-up.ts'
import { findMaker } from '../db/embedded/binaries.ts'
import { hasCluster } from '../db/embedded/cluster.ts'
import { migrate } from '../db/migrate.ts'
import type { OpenedDatabase } from '../db/open.ts'
import type { PostgresDatabase } from '../db/postgres.ts'
import { isLocalName } from '../http/gate.ts'
import { anyKeys } from '../keys/api-keys.ts'
import { checkAdminKey } from '../keys/key-ring.ts'
import { describeFailure } from './describe-failure.ts'
import { doubtful, type Finding, failed, fine } from './finding.ts'
import { withDatabase } from './with-database.ts'

const clockAheadMsMax = 1_000

/** The first start makes the directory, so the nearest parent that exists must be writable. */
export async function checkDirectory(dataDirectory: string): Promise<Finding> {
  const directory = resolve(dataDirectory)
  for (let path = directory; ; path = dirname(path)) {
    try {
      await access(path, constants.W_OK | constants.X_OK)
      const says = path === directory ? `${directory} is writable` : `${directory} can be made`
      return fine('data directory', says)
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      if (code === 'ENOENT' && path !== dirname(path)) continue
      return failed('data directory', message, 'set POSTHORN_DATA_DIR to a folder of this user')
    }
  }
}

/** Everything that the database can be asked; one finding if it does not answer. */
export async function checkDatabase(config: ServerConfig): Promise<Finding[]> {
  const { database, dataDirectory } = config
  try {
    if (database === undefined && !(await hasCluster(dataDirectory))) {
      const { version, kind } = await findMaker(dataDirectory)
      const says = `none yet: PostgreSQL ${version} (${kind === 'path' ? 'from PATH' : kind}) will make it`
      return [fine('database', says), ...(await checkKeys(config, undefined))]
    }
    return await withDatabase({ embedded: 'existing' }, (opened) => ask(opened, config))
  } catch (error) {
    const fix =
      database === undefined
        ? 'do what the error says, or set DATABASE_URL to another server'
        : 'check DATABASE_URL, and that its server runs, is no standby and lets this user in'
    return [failed('database', describeFailure(error).text, fix)]
  }
}

async function ask({ db, embedded }: OpenedDatabase, config: ServerConfig): Promise<Finding[]> {
  const found = await checkUp(db)
  const schema = await checkSchema(db)
  const place = embedded === undefined ? '' : ` in ${embedded.dataDirectory}`
  return [
    fine('database', `PostgreSQL ${db.serverVersion} answers${place}`),
    ...checkDurability(found),
    schema,
    checkClock(found),
    checkConnections(found, config.poolMax),
    ...(await checkKeys(config, schema.state === 'ok' ? db : undefined)),
  ]
}

function checkDurability({ settings }: CheckUp): Finding[] {
  const check = 'durability'
  const isOff = (name: string) => settings[name] === 'off'
  const turnOn = (name: string) => `alter system set ${name} = on; select pg_reload_conf()`
  const findings = ['fsync', 'synchronous_commit']
    .filter(isOff)
    .map((name) => failed(check, `${name} is off: a crash can lose acknowledged events`, turnOn(name)))
  if (isOff('full_page_writes')) {
    const says =
      'full_page_writes is off: a crash can damage tables, unless the file system writes whole pages'
    findings.push(doubtful(check, says, turnOn('full_page_writes')))
  }
  if (isOff('data_checksums')) {
    const says = 'data checksums are off: nobody would notice damage by the disk'
    findings.push(doubtful(check, says, 'stop the server and run pg_checksums --enable'))
  }
  if (findings.length > 0) return findings
  const says = `fsync, full_page_writes and data checksums are on, synchronous_commit is ${settings.synchronous_commit}`
  return [fine(check, says)]
}

async function checkSchema(db: PostgresDatabase): Promise<Finding> {
  try {
    const { pending } = await migrate(db, { dryRun: true })
    if (pending.length === 0) return fine('schema', `${db.schema} has all migrations`)
    const says = `${db.schema} lacks ${pending.join(', ')}`
    return failed('schema', says, 'run posthorn migrate, or start posthorn serve')
  } catch (error) {
    const fix = 'use the version of posthorn that last migrated this database'
    return failed('schema', describeFailure(error).text, fix)
  }
}

function checkClock({ clockAheadMs, clockErrorMs }: CheckUp): Finding {
  const offMs = Math.abs(clockAheadMs)
  if (offMs - clockErrorMs <= clockAheadMsMax) {
    return fine('clock', `the database and this machine agree to ${Math.ceil(offMs)} ms`)
  }
  const direction = clockAheadMs > 0 ? 'ahead of' : 'behind'
  const says = `the database's clock is ${(offMs / 1000).toFixed(1)} s ${direction} this machine's`
  const fix = "run an NTP client on both; posthorn uses the database's clock only, other programs may not"
  return doubtful('clock', says, fix)
}

function checkConnections({ connections, connectionsMax }: CheckUp, poolMax: number): Finding {
  // One more than the pool has: a hub listens for notifications on a connection of its own.
  const perProcess = poolMax + 1
  const says = `${connections} of ${connectionsMax} are in use, and each process of posthorn takes up to ${perProcess}`
  if (perProcess <= connectionsMax) return fine('connections', says)
  return doubtful('connections', says, 'raise max_connections on the server, or lower POSTHORN_POOL_MAX')
}

/** Without a schema there are no keys. */
async function checkKeys(
  { host, roles, adminKey }: ServerConfig,
  db: PostgresDatabase | undefined,
): Promise<Finding[]> {
  if (!roles.includes('api')) return []
  if (adminKey !== undefined) return [judgeAdminKey(adminKey)]
  if (db !== undefined && (await anyKeys(db))) return [fine('keys', 'there are keys: every call needs one')]
  if (isLocalName(host)) return [fine('keys', `none: ${host} answers this machine only`)]
  const fix = 'run posthorn keys create --name admin --scopes admin, or set POSTHORN_ADMIN_KEY'
  return [failed('keys', `none, so that posthorn serve refuses to listen on ${host}`, fix)]
}

function judgeAdminKey(adminKey: string): Finding {
  try {
    checkAdminKey(adminKey)
    return fine('keys', 'POSTHORN_ADMIN_KEY is set: every call needs a key')
  } catch (error) {
    return failed('keys', describeFailure(error).text, 'openssl rand -hex 32 makes a good one')
  }
}
