/** A PgBouncer in transaction mode before the database, where there is one on this machine. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { openProxy } from './proxy.js'

export const program = '/usr/sbin/pgbouncer'
const port = 6432

/** @returns undefined if there is none */
export async function openBouncer(server) {
  if (!existsSync(program)) return undefined
  const { user, database, password } = server
  // Its account may not enter the directory of the database's socket.
  const proxy = await openProxy(server, { isOpen: true })
  const { host, port: serverPort } = proxy.connection
  const directory = mkdtempSync(join(tmpdir(), 'ph-bouncer-'))
  chmodSync(directory, 0o777)
  const file = join(directory, 'pgbouncer.ini')
  const secret = password === undefined ? '' : ` password=${password}`
  writeFileSync(
    file,
    [
      '[databases]',
      `${database} = host=${host} port=${serverPort} dbname=${database} user=${user}${secret}`,
      '[pgbouncer]',
      `unix_socket_dir = ${directory}`,
      `listen_port = ${port}`,
      'listen_addr =',
      'auth_type = any',
      'pool_mode = transaction',
      'default_pool_size = 8',
      'server_login_retry = 1', // else it stays away for 15 s after the database is back
      'max_client_conn = 200',
      'ignore_startup_parameters = extra_float_digits,options,statement_timeout,lock_timeout,idle_in_transaction_session_timeout',
      'logfile =',
    ].join('\n'),
  )
  // It refuses to be root, as the database does.
  const isRoot = process.getuid?.() === 0
  const start = () => spawn(program, ['-q', ...(isRoot ? ['-u', 'postgres'] : []), file], { stdio: 'ignore' })
  let child = start()
  const connection = { host: directory, port, user, database }
  await untilAnswers(connection)
  const stop = async (signal) => {
    const ended = once(child, 'exit')
    child.kill(signal)
    await ended
  }
  return {
    connection,
    async restart() {
      await stop('SIGKILL')
      // Killed, it leaves its socket behind, and the next one thinks that somebody is there.
      rmSync(join(directory, `.s.PGSQL.${port}`), { force: true })
      child = start()
      await untilAnswers(connection)
    },
    async close() {
      await stop('SIGKILL')
      await proxy.close()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

async function untilAnswers(connection) {
  for (let tries = 0; ; tries++) {
    const client = new pg.Client({ ...connection, connectionTimeoutMillis: 2_000, query_timeout: 2_000 })
    try {
      await client.connect()
      await client.query('select 1')
      return await client.end()
    } catch (error) {
      if (tries === 100) throw error
      await delay(100)
    }
  }
}
