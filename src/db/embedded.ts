import { randomUUID } from 'node:crypto'
import { PosthornError } from '../errors.ts'
import { chooseAccount, handOver } from './embedded/account.ts'
import { type BinariesKind, findBinaries } from './embedded/binaries.ts'
import { bundlePackage } from './embedded/bundle.ts'
import { clusterMajor, hasCluster, makeCluster, removeUnfinished, superuser } from './embedded/cluster.ts'
import { unusable } from './embedded/files.ts'
import { type Keeper, keep } from './embedded/keeper.ts'
import { type Layout, openLayout, port, removeSockets } from './embedded/layout.ts'
import { withLock } from './embedded/lock.ts'
import { type LaunchRequest, launch, shutDown } from './embedded/postmaster.ts'
import { database, findRunning, type Running } from './embedded/running.ts'
import {
  checkDurability,
  othersPresent,
  readFacts,
  type ServerFacts,
  showPresence,
} from './embedded/session.ts'

export interface EmbeddedOptions {
  /** Where the data is. Made if absent; refused if it holds files that are not posthorn's. */
  readonly dataDirectory: string
  readonly log?: (line: string) => void
  /** Which server to start. Without it the bundled one, else `postgres` on PATH. */
  readonly binaries?: BinariesKind
}

export interface EmbeddedServer {
  /** `host` is the directory of the server's unix socket: it listens nowhere else. */
  readonly connection: { host: string; port: number; user: string; database: string }
  readonly dataDirectory: string
  /** As the server reports it: `18.4`. */
  readonly version: string
  readonly binaries: BinariesKind
  /** fsync, synchronous_commit, full_page_writes and data checksums are on: checked, and refused otherwise. */
  readonly durability: 'synced'
  /** The server was already running: another process uses it, or was killed and left it running. */
  readonly joined: boolean
  /** One line: which server runs, where its data is, how durable it is. */
  describe(): string
  /** The last process that leaves shuts the server down. Calling it twice is safe. */
  stop(): Promise<void>
}

/**
 * Starts a real PostgreSQL server on a directory, or joins the server that runs on it. All processes that share a
 * directory share one server: the first process starts it, and each process holds one connection as a sign of its
 * presence. At `stop()` a process that sees no such sign of another shuts the server down. A server whose processes were
 * all killed goes on until the next process joins and stops it. If the server itself dies, the processes that use it start
 * it again.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  checkOptions(options)
  const log = options.log ?? (() => undefined)
  const layout = await openLayout(options.dataDirectory)
  const use: Use = { layout, options, log, id: randomUUID() }
  const { running, facts, joined } = await withLock(layout.directory, () => joinOrStart(use))
  const keeper = keep(running, { log, restore: () => withLock(layout.directory, () => restore(use)) })
  let stopped: Promise<void> | undefined
  const server: EmbeddedServer = {
    connection: { host: running.sockets, port, user: superuser, database },
    dataDirectory: layout.directory,
    version: facts.version,
    binaries: facts.binaries,
    durability: 'synced',
    joined,
    describe: () => describe(layout, facts),
    stop: () => {
      stopped ??= leave(use, keeper)
      return stopped
    },
  }
  log(`${joined ? 'joined' : 'started'} ${server.describe()}`)
  return server
}

/** One call of `startEmbedded`: its directory, and the id by which the server knows the process. */
interface Use {
  readonly layout: Layout
  readonly options: EmbeddedOptions
  readonly log: (line: string) => void
  readonly id: string
}

interface Started {
  readonly running: Running
  readonly facts: ServerFacts
  readonly joined: boolean
}

/** The caller holds the lock, so no other process makes, starts or stops a server here meanwhile. */
async function joinOrStart(use: Use): Promise<Started> {
  const { layout, log } = use
  const account = await chooseAccount(layout.cluster)
  await removeUnfinished(layout, log)
  const major = await clusterMajor(layout)
  const found = await findRunning(layout)
  if (found.state === 'running') return enter(use, found, true)
  const { directory, cluster } = layout
  const binaries = await findBinaries({ kind: use.options.binaries, account, major, directory })
  if (major === undefined) await makeCluster(layout, binaries, account)
  else await handOver(account, cluster)
  return launchOrJoin(use, { binaries, account, stalePid: found.stalePid })
}

/**
 * A process that was killed may have started a postmaster that was not visible yet when we looked; a second postmaster then
 * ends by itself. So after a failure we look again, a few times. A server that is really broken is rejected at once.
 */
async function launchOrJoin(use: Use, request: LaunchRequest): Promise<Started> {
  const { layout } = use
  let { stalePid } = request
  for (let launchesLeft = launchesMax; ; launchesLeft -= 1) {
    const outcome = await launch(layout, { ...request, stalePid })
    if (outcome.kind === 'answers') return enter(use, outcome.running, false)
    const found = await findRunning(layout)
    if (found.state === 'running') return enter(use, found, true)
    stalePid = found.stalePid
    if (outcome.kind === 'rejected' || launchesLeft === 1) {
      const { reason, log } = outcome
      throw new PosthornError('EMBEDDED_FAILED', { directory: layout.directory, reason, log })
    }
  }
}

const launchesMax = 3

/** Checks that the server is durable, then shows our presence. A server that is not durable is not used. */
async function enter({ layout, id }: Use, running: Running, joined: boolean): Promise<Started> {
  try {
    const facts = await readFacts(running.client)
    checkDurability(layout, running.pid, facts)
    await showPresence(running.client, id)
    return { running, facts, joined }
  } catch (error) {
    await running.client.end()
    if (!joined) await shutDown(layout, running.pid)
    if (error instanceof PosthornError) throw error
    throw new PosthornError('DATABASE_UNAVAILABLE', { reason: (error as Error).message }, { cause: error })
  }
}

/** Joins or starts the server after it was lost. If its data has vanished, no empty cluster takes its place. */
async function restore(use: Use): Promise<Running> {
  if ((await clusterMajor(use.layout)) === undefined) {
    throw unusable(use.layout.directory, 'its cluster is gone')
  }
  const { running, joined } = await joinOrStart(use)
  use.log(joined ? 'the embedded server is back' : 'the embedded server had died and was started again')
  return running
}

async function leave({ layout, log, id }: Use, keeper: Keeper): Promise<void> {
  await keeper.stop()
  try {
    const others = await withLock(layout.directory, () => shutDownUnlessUsed(layout, id))
    if (others === 0) log(`stopped the embedded server in ${layout.directory}`)
    else log(`left the embedded server running: ${others} more use it`)
  } finally {
    await keeper.release()
  }
}

/** Shuts down the server of a process that ended without `stop()`. False: other processes use the server. */
export async function stopDeserted(dataDirectory: string): Promise<boolean> {
  if (!(await hasCluster(dataDirectory))) return true
  const layout = await openLayout(dataDirectory)
  return (await withLock(layout.directory, () => shutDownUnlessUsed(layout, ''))) === 0
}

/** Returns how many other processes use the server. If there are any, it goes on. */
async function shutDownUnlessUsed(layout: Layout, id: string): Promise<number> {
  const found = await findRunning(layout)
  if (found.state === 'stopped') return 0
  const others = await othersPresent(found.client, id)
  await found.client.end()
  if (others > 0) return others
  await shutDown(layout, found.pid)
  await removeSockets(layout)
  return 0
}

function describe(layout: Layout, { version, binaries }: ServerFacts): string {
  const server = `PostgreSQL ${version} (${binaries === 'bundled' ? 'bundled' : 'from PATH'})`
  return `${server} in ${layout.directory}, durable: fsync, synchronous_commit and data checksums are on`
}

function checkOptions({ dataDirectory, binaries }: EmbeddedOptions): void {
  if (typeof dataDirectory !== 'string' || dataDirectory === '' || dataDirectory.includes('\0')) {
    throw new PosthornError('BAD_OPTION', {
      option: 'dataDirectory',
      expected: 'a path',
      value: dataDirectory,
    })
  }
  if (binaries !== undefined && binaries !== 'bundled' && binaries !== 'path') {
    const expected = "'bundled' or 'path'"
    throw new PosthornError('BAD_OPTION', { option: 'binaries', expected, value: binaries })
  }
  if (process.platform === 'win32') {
    const reason = 'it is reached through a unix socket, which Node cannot use on Windows'
    throw new PosthornError('EMBEDDED_UNAVAILABLE', { reason, package: bundlePackage })
  }
}
