/** One private PostgreSQL, and Redis where it is installed, for the whole run. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, existsSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import pg from 'pg'
import { waitUntil } from './workload.js'

/**
 * @typedef {object} Servers what a bench connects to; plain values, so that child processes can be told
 * @property {{ host: string, port: number, user: string, database: string } | { connectionString: string }} database
 * @property {{ path: string } | null} redis
 */

/** @returns {Promise<{ servers: Servers, lines: string[], stop: () => Promise<void> }>} */
export async function startServers() {
  const directory = mkdtempSync(join(tmpdir(), 'posthorn-bench-'))
  const running = []
  const stopAll = async () => {
    for (const server of running.reverse()) await server.stop()
    rmSync(directory, { recursive: true, force: true })
  }
  let stopped
  const stop = () => {
    stopped ??= stopAll()
    return stopped
  }
  try {
    const postgres = await startPostgres(directory)
    running.push(postgres)
    const redis = await startRedis(directory)
    if (redis !== null) running.push(redis)
    const servers = { database: postgres.database, redis: redis === null ? null : redis.address }
    return { servers, lines: await describe(servers, postgres.origin), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** The servers that `main.js` has started. */
export function givenServers() {
  const text = process.env.BENCH_SERVERS
  if (text === undefined) throw new Error('Expected BENCH_SERVERS to be set: run npm run bench -- <name>')
  return JSON.parse(text)
}

let schemaCount = 0

/** Every run of every contender gets a schema of its own, so that none meets another's leftovers. */
export function nextSchema(name) {
  return `bench_${name}_${process.pid}_${++schemaCount}`
}

export async function dropSchema(queryable, schema) {
  await queryable.query(`drop schema if exists ${schema} cascade`)
}

async function startPostgres(directory) {
  const url = process.env.BENCH_DATABASE_URL
  if (url !== undefined) {
    return { database: { connectionString: url }, origin: 'BENCH_DATABASE_URL', stop: async () => undefined }
  }
  return (await startEmbeddedPostgres(directory)) ?? (await startInstalledPostgres(directory))
}

/** The server our users get, if the library is built and its binaries are installed. */
async function startEmbeddedPostgres(directory) {
  const module = new URL('../dist/db/embedded.js', import.meta.url)
  if (!existsSync(module)) return null
  const { startEmbedded } = await import(module)
  // Under root the server runs as somebody else, who must be able to reach its directory.
  chmodSync(directory, 0o755)
  const embedded = await startEmbedded({ dataDirectory: join(directory, 'embedded') })
  return {
    database: embedded.connection,
    origin: `embedded, ${embedded.binaries}`,
    stop: () => embedded.stop(),
  }
}

async function startInstalledPostgres(directory) {
  const binary = findOnPath('postgres')
  if (binary === null)
    throw new Error('No PostgreSQL: build the library, install postgres, or set BENCH_DATABASE_URL')
  const owner = unprivilegedOwner()
  const data = join(directory, 'postgres')
  if (owner.uid !== undefined) chownSync(directory, owner.uid, owner.gid)
  const initdb = join(dirname(realpathSync(binary)), 'initdb')
  const made = spawnSync(
    initdb,
    ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C'],
    owner,
  )
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr ?? made.error}`)

  const settings = {
    listen_addresses: '',
    unix_socket_directories: directory,
    fsync: 'on',
    synchronous_commit: 'on',
    shared_buffers: '512MB',
    max_wal_size: '4GB',
    max_connections: '200',
  }
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const child = spawn(binary, ['-D', data, ...args], { ...owner, stdio: ['ignore', 'ignore', 'ignore'] })
  const database = { host: directory, port: 5432, user: 'postgres', database: 'postgres' }
  await waitUntil(() => answers(database), {
    pauseMs: 50,
    limitMs: 30_000,
    what: 'a PostgreSQL that answers',
  })
  // SIGINT is its fast shutdown: sessions are ended, data is kept consistent.
  return { database, origin: binary, stop: () => end(child, 'SIGINT') }
}

async function startRedis(directory) {
  const binary = findOnPath('redis-server')
  if (binary === null) return null
  const path = join(directory, 'redis.sock')
  const settings = {
    port: 0,
    unixsocket: path,
    dir: directory,
    appendonly: 'yes',
    appendfsync: 'everysec',
    save: '',
  }
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)])
  const child = spawn(binary, args, { stdio: 'ignore' })
  await waitUntil(() => existsSync(path), { pauseMs: 50, limitMs: 10_000, what: 'a Redis that listens' })
  return { address: { path }, stop: () => end(child, 'SIGTERM') }
}

async function describe(servers, origin) {
  const client = new pg.Client(servers.database)
  await client.connect()
  const names = [
    'server_version',
    'fsync',
    'synchronous_commit',
    'shared_buffers',
    'max_wal_size',
    'full_page_writes',
  ]
  const { rows } = await client.query(
    'select name, current_setting(name) as value from unnest($1::text[]) as name',
    [names],
  )
  await client.end()
  const settings = rows.map(({ name, value }) => `${name} ${value}`).join(', ')
  const redis =
    servers.redis === null
      ? 'Redis: no redis-server on PATH, so BullMQ is skipped'
      : `Redis: ${redisVersion()}, unix socket, appendonly yes, appendfsync everysec`
  return [`PostgreSQL (${origin}): ${settings}`, redis]
}

function redisVersion() {
  return /v=(\S+)/.exec(String(spawnSync('redis-server', ['--version']).stdout))?.[1] ?? 'unknown version'
}

async function answers(database) {
  const client = new pg.Client(database)
  // A client that cannot connect also emits: without a listener that would end the process.
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.end()
    return true
  } catch {
    return false
  }
}

async function end(child, signal) {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill(signal)
  await exited
}

function findOnPath(name) {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const file = join(folder, name)
    if (existsSync(file)) return file
  }
  return null
}

/** PostgreSQL refuses to run as root. */
function unprivilegedOwner() {
  if (process.getuid?.() !== 0) return {}
  for (const user of ['postgres', 'nobody']) {
    const uid = Number(spawnSync('id', ['-u', user]).stdout)
    const gid = Number(spawnSync('id', ['-g', user]).stdout)
    if (uid > 0 && gid > 0) return { uid, gid }
  }
  throw new Error('Running as root, and there is no user postgres or nobody to run PostgreSQL as')
}
