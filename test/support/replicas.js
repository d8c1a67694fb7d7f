import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { findBinaries } from '../../dist/db/embedded/binaries.js'

const debian = '/usr/lib/postgresql/15/bin'

/** The folder of a server's programs: of the embedded one, or of Debian's 15; by default whichever is there. */
export async function findPrograms(wanted) {
  if (wanted !== 'debian') {
    const { uid, gid } = unprivileged()
    const account =
      uid === undefined ? { kind: 'self', uid: process.getuid() } : { kind: 'dropped', uid, gid }
    const found = await findBinaries({ kind: 'bundled', account, directory: tmpdir() }).catch(() => undefined)
    if (found !== undefined) return dirname(found.postgres)
  }
  return wanted !== 'embedded' && existsSync(join(debian, 'initdb')) ? debian : undefined
}

/**
 * Two servers, the second a standby of the first. What the standby gets goes through a link that can be frozen, as a
 * network would: what was sent since then is lost with the primary.
 * @param {{ programs: string }} options
 */
export async function startReplicas({ programs }) {
  const directory = mkdtempSync(join(tmpdir(), 'posthorn-replicas-'))
  const account = unprivileged()
  give(directory, account)
  const [first, second] = await freePorts(2)
  const link = await startLink(first)
  const primary = server('primary', first)
  const standby = server('standby', second)
  await runProgram('initdb', [
    '-D',
    primary.directory,
    '-U',
    'posthorn',
    '-A',
    'trust',
    '--no-sync',
    '--no-instructions',
  ])
  configure(primary)
  // Copied while nobody runs on it: that needs no pg_basebackup, which the embedded server lacks.
  cpSync(primary.directory, standby.directory, { recursive: true, preserveTimestamps: true })
  configure(standby)
  const conninfo = `host=127.0.0.1 port=${link.port} user=posthorn application_name=standby`
  writeFileSync(join(standby.directory, 'postgresql.auto.conf'), `primary_conninfo = '${conninfo}'\n`)
  writeFileSync(join(standby.directory, 'standby.signal'), '')
  give(standby.directory, account)
  await primary.start()
  await standby.start()

  function server(name, port) {
    const one = { directory: join(directory, name), port, child: undefined }
    return {
      ...one,
      url: `postgres://posthorn@127.0.0.1:${port}/postgres`,
      async start() {
        one.child = spawn(join(programs, 'postgres'), ['-D', one.directory], { stdio: 'ignore', ...account })
        await untilAnswering(port)
      },
      /** At once and all of it: no process of it says or sends another word. */
      kill() {
        const { pid } = one.child
        process.kill(pid, 'SIGSTOP')
        const children = childrenOf(pid)
        for (const child of children) killIfThere(child)
        process.kill(pid, 'SIGKILL')
      },
      async stop() {
        if (one.child === undefined || one.child.exitCode !== null || one.child.signalCode !== null) return
        const ended = once(one.child, 'exit')
        one.child.kill('SIGQUIT')
        await ended
      },
      async query(text, values) {
        const client = new pg.Client({ host: '127.0.0.1', port, user: 'posthorn', database: 'postgres' })
        client.on('error', () => undefined)
        await client.connect()
        try {
          return (await client.query(text, values)).rows
        } finally {
          await client.end()
        }
      },
    }
  }

  async function runProgram(program, args) {
    const child = spawn(join(programs, program), args, { stdio: ['ignore', 'ignore', 'pipe'], ...account })
    let said = ''
    child.stderr.on('data', (bytes) => {
      said += bytes
    })
    const [code] = await once(child, 'exit')
    if (code !== 0) throw new Error(`${program} ended with ${code}: ${said}`)
  }

  function configure({ directory: data, port }) {
    // Processes are killed here, not machines: what the kernel has is kept, so nothing need be synced.
    const settings = [
      `port = ${port}`,
      "listen_addresses = '127.0.0.1'",
      `unix_socket_directories = ''`,
      'fsync = off',
      'shared_buffers = 16MB',
      'max_connections = 200',
      'max_wal_size = 256MB',
      'wal_keep_size = 64MB',
      'wal_receiver_status_interval = 1s',
      'wal_retrieve_retry_interval = 100ms',
    ]
    const path = join(data, 'postgresql.conf')
    writeFileSync(
      path,
      `${readFileSync(path, 'utf8').split('# two servers\n')[0]}# two servers\n${settings.join('\n')}\n`,
    )
  }

  return {
    primary,
    standby,
    link,
    /** Both, the standby first. */
    url: `postgres://posthorn@127.0.0.1:${second},127.0.0.1:${first}/postgres?target_session_attrs=read-write`,
    /** Commits wait for the standby, or no longer do. */
    async synchronize(isSynchronous) {
      await primary.query(`alter system set synchronous_standby_names = '${isSynchronous ? 'standby' : ''}'`)
      await primary.query('select pg_reload_conf()')
      while (isSynchronous) {
        const [row] = await primary.query(
          `select count(*)::int as n from pg_stat_replication where sync_state = 'sync'`,
        )
        if (row.n > 0) return
        await delay(20)
      }
    },
    async promote() {
      await standby.query('select pg_promote(true, 30)')
    },
    async close() {
      await Promise.all([primary.stop(), standby.stop()])
      link.close()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** PostgreSQL refuses to be root. */
function unprivileged() {
  if (process.getuid?.() !== 0) return {}
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((one) => /^(postgres|nobody):/.test(one))
  const [, , uid, gid] = line.split(':')
  return { uid: Number(uid), gid: Number(gid) }
}

function give(path, { uid, gid }) {
  if (uid === undefined) return
  chownSync(path, uid, gid)
  if (!statSync(path).isDirectory()) return
  for (const name of readdirSync(path)) give(join(path, name), { uid, gid })
}

async function untilAnswering(port) {
  for (;;) {
    const client = new pg.Client({ host: '127.0.0.1', port, user: 'posthorn', database: 'postgres' })
    client.on('error', () => undefined)
    try {
      await client.connect()
      await client.end()
      return
    } catch {
      // It is still starting: the caller's own time limit counts.
      await delay(50)
    }
  }
}

function childrenOf(pid) {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}

function killIfThere(pid) {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
}

async function freePorts(count) {
  const listeners = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'))
  await Promise.all(listeners.map((one) => once(one, 'listening')))
  const ports = listeners.map((one) => one.address().port)
  await Promise.all(listeners.map((one) => new Promise((resolve) => one.close(resolve))))
  return ports
}

/** What the standby hears of its primary. */
async function startLink(port) {
  const pairs = new Set()
  let isFrozen = false
  const listener = createServer((client) => {
    const upstream = connect(port, '127.0.0.1')
    const pair = { client, upstream }
    pairs.add(pair)
    const destroy = () => {
      client.destroy()
      upstream.destroy()
      pairs.delete(pair)
    }
    for (const socket of [client, upstream]) {
      socket.on('error', destroy)
      socket.on('close', destroy)
    }
    client.on('data', (bytes) => isFrozen || upstream.write(bytes))
    upstream.on('data', (bytes) => isFrozen || client.write(bytes))
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const cut = () => {
    for (const { client, upstream } of pairs) {
      client.destroy()
      upstream.destroy()
    }
  }
  return {
    port: listener.address().port,
    /** Nothing of what is sent from now on arrives, and nobody notices. */
    freeze() {
      isFrozen = true
    },
    /** The standby connects anew and gets what it missed. */
    heal() {
      isFrozen = false
      cut()
    },
    close() {
      cut()
      listener.close()
    },
  }
}
