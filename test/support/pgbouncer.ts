import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startProxy } from './proxy.ts'
import type { ServerAddress } from './server.ts'

const nobody = 65534

export const hasPgBouncer = spawnSync('pgbouncer', ['--version']).status === 0

export interface PgBouncer {
  readonly connection: ServerAddress
  stop(): Promise<void>
}

/** PgBouncer in transaction mode in front of `server`, with `extra` lines in its settings. */
export async function startPgBouncer(server: ServerAddress, extra = ''): Promise<PgBouncer> {
  const directory = await mkdtemp(join(tmpdir(), 'posthorn-pgbouncer-'))
  const port = await freePort()
  // The server's socket may be closed to other users, and PgBouncer runs as one of them.
  const way = await startProxy(server)
  const password = server.password === undefined ? '' : `password=${server.password}`
  const file = join(directory, 'pgbouncer.ini')
  await writeFile(
    file,
    `[databases]
${server.database} = host=${way.connection.host} port=${way.connection.port} user=${server.user} ${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 5
${extra}
`,
  )
  // PgBouncer refuses to run as root.
  const account = process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : {}
  if (account.uid !== undefined) await chmod(directory, 0o755)
  const child = spawn('pgbouncer', [file], { stdio: ['ignore', 'ignore', 'pipe'], ...account })
  try {
    await ready(child)
  } catch (error) {
    child.kill('SIGKILL')
    await way.close()
    throw error
  }
  return {
    connection: { ...server, host: '127.0.0.1', port },
    async stop() {
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
      await way.close()
      await rm(directory, { recursive: true })
    },
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

async function ready(child: ChildProcess): Promise<void> {
  let log = ''
  await new Promise<void>((resolve, reject) => {
    child.stderr?.on('data', (bytes) => {
      log += bytes
      if (log.includes('process up')) resolve()
    })
    child.on('exit', (code) => reject(new Error(`pgbouncer ended with ${code}: ${log}`)))
  })
}
