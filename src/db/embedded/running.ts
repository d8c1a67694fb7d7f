import { randomBytes } from 'node:crypto'
import { open, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { PosthornError } from '../../errors.ts'
import { superuser } from './cluster.ts'
import { checkSockets, isOurSockets, type Layout, port } from './layout.ts'
import { occupantOf, readPidFile } from './pid-file.ts'

/** A server that has proved that it runs on the cluster, and a connection to it. */
export interface Running {
  readonly pid: number
  readonly sockets: string
  readonly client: pg.Client
  /** Resolves when the connection is over, for whatever reason. */
  readonly ended: Promise<void>
}

type Found =
  | ({ readonly state: 'running' } & Running)
  /** `stalePid` is alive but not the postmaster that the pid file remembers. */
  | { readonly state: 'stopped'; readonly stalePid?: number }

export const database = 'postgres'

/** A postmaster opens its socket within moments. Recovery after a crash may take minutes, but the server says so. */
const answerMsMax = 10_000
const recoveryMsMax = 300_000
const fillMsMax = 1000
const pollMs = 15

/** Finds the server on the cluster. If a server runs there that cannot be proved to be ours, throws an error with its pid. */
export async function findRunning(layout: Layout): Promise<Found> {
  const begun = performance.now()
  let waitMsMax = answerMsMax
  for (;;) {
    const file = await readPidFile(layout.cluster)
    if (!file) return { state: 'stopped' }
    if (file === 'empty') {
      // The postmaster fills the file at once, unless it is killed in between.
      if (performance.now() - begun > fillMsMax) return { state: 'stopped' }
      await delay(pollMs)
      continue
    }
    const occupant = await occupantOf(file.pid, layout.cluster)
    if (occupant === 'nobody') return { state: 'stopped' }
    if (occupant === 'stranger') return { state: 'stopped', stalePid: file.pid }
    let reason = 'it opens no socket'
    if (file.sockets !== undefined) {
      if (!isOurSockets(layout, file.sockets)) {
        throw inUse(layout, file.pid, `its socket is in ${file.sockets}, so posthorn did not start it`)
      }
      const answer = await askIn(layout, file.sockets)
      if (answer.kind === 'proved') return { state: 'running', pid: file.pid, ...answer.link }
      if (answer.kind === 'another') throw inUse(layout, file.pid, answer.reason)
      if (answer.kind === 'starting') waitMsMax = recoveryMsMax
      reason = answer.reason
    }
    if (performance.now() - begun > waitMsMax) throw inUse(layout, file.pid, reason)
    await delay(pollMs)
  }
}

type Answer =
  | { readonly kind: 'proved'; readonly link: Omit<Running, 'pid'> }
  | { readonly kind: 'another' | 'starting' | 'silent'; readonly reason: string }

/** Connects to the socket and has the server prove that it is the cluster's. */
export async function askIn(layout: Layout, sockets: string): Promise<Answer> {
  const client = newClient(sockets)
  const ended = new Promise<void>((resolve) => client.once('end', () => resolve()))
  try {
    await checkSockets(layout, sockets, (await stat(layout.cluster)).uid)
    await client.connect()
    if (await readsOurDirectory(client, layout.cluster))
      return { kind: 'proved', link: { sockets, client, ended } }
    await client.end()
    return { kind: 'another', reason: 'the server on its socket has other data' }
  } catch (error) {
    if (error instanceof PosthornError) throw error
    await client.end()
    const { code, message } = error as pg.DatabaseError
    const kind = code === cannotConnectNow ? 'starting' : isStrange(code) ? 'another' : 'silent'
    return { kind, reason: message || `${code}` }
  }
}

function newClient(sockets: string): pg.Client {
  const client = new pg.Client({
    host: sockets,
    port,
    user: superuser,
    database,
    ssl: false,
    application_name: 'posthorn supervisor',
    connectionTimeoutMillis: 5000,
    query_timeout: 10_000,
  })
  // Without a listener the end of the server would be an uncaught error. Callers wait for `ended`.
  client.on('error', () => undefined)
  return client
}

const cannotConnectNow = '57P03'

/** A server that does not know our role or our database was not made by us. */
function isStrange(code: string | undefined): boolean {
  return code?.startsWith('28') === true || code === '3D000'
}

/** The proof: the server reads from its data directory a secret that we have just written into ours. */
async function readsOurDirectory(client: pg.Client, cluster: string): Promise<boolean> {
  const secret = randomBytes(16).toString('hex')
  const name = `posthorn-proof-${randomBytes(8).toString('hex')}`
  // Exclusive creation follows no link that the cluster's owner might have set as a trap for root.
  const file = await open(join(cluster, name), 'wx')
  try {
    await file.chmod(0o644)
    await file.writeFile(secret)
    const result = await client.query<{ text: string | null }>(
      'select pg_read_file($1, 0, 64, true) as text',
      [name],
    )
    return result.rows[0]?.text === secret
  } finally {
    await file.close()
    await rm(join(cluster, name), { force: true })
  }
}

function inUse({ directory }: Layout, pid: number, reason: string): PosthornError {
  return new PosthornError('DATA_DIRECTORY_IN_USE', { directory, pid, reason })
}
