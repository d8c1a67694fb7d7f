import { type ChildProcess, spawn } from 'node:child_process'
import { open, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { PosthornError } from '../../errors.ts'
import { type Account, directoryFor, spawnAs } from './account.ts'
import type { Binaries } from './binaries.ts'
import { codeOf, unlessMissing } from './files.ts'
import { type Layout, port, prepareSockets } from './layout.ts'
import { occupantOf, removeStaleLocks } from './pid-file.ts'
import { programEnvironment } from './program.ts'
import { askIn, type Running } from './running.ts'

export interface LaunchRequest {
  readonly binaries: Binaries
  readonly account: Account
  readonly stalePid?: number | undefined
}

const startMsMax = 300_000
const leftoversMsMax = 15_000
const fastStopMsMax = 60_000
const immediateStopMsMax = 10_000
const pollMs = 15
const logBytesMax = 10_000_000

type LaunchOutcome =
  | { readonly kind: 'answers'; readonly running: Running }
  /** `ended`: it ended by itself or was killed. `rejected`: it never answered, or has other data. */
  | { readonly kind: 'ended' | 'rejected'; readonly reason: string; readonly log: string }

/** Starts the postmaster and waits until it answers. It has a session and a log file of its own, and outlives this process. */
export async function launch(layout: Layout, request: LaunchRequest): Promise<LaunchOutcome> {
  await prepareSockets(layout, request.account)
  await rotateLog(layout.log)
  await removeStaleLocks(layout.cluster, join(layout.sockets, `.s.PGSQL.${port}.lock`))
  const begun = performance.now()
  for (;;) {
    const outcome = await launchOnce(layout, request)
    if (outcome.kind === 'answers') return outcome
    // The backends of a killed postmaster notice within moments that it is gone, and end.
    const hasLeftovers = /shared memory block .* still in use/.test(outcome.log)
    if (!hasLeftovers || performance.now() - begun > leftoversMsMax) return outcome
    await delay(100)
  }
}

/** Fast shutdown: sessions are ended, then a checkpoint is written. If that hangs, the next start recovers. */
export async function shutDown(layout: Layout, pid: number): Promise<void> {
  for (const [signal, waitMs] of [
    ['SIGINT', fastStopMsMax],
    ['SIGQUIT', immediateStopMsMax],
  ] as const) {
    sendSignal(pid, signal)
    const begun = performance.now()
    while (performance.now() - begun < waitMs) {
      const occupant = await occupantOf(pid, layout.cluster)
      if (occupant === 'nobody' || occupant === 'stranger') return
      await delay(pollMs)
    }
  }
  const reason = 'it does not react to being shut down'
  throw new PosthornError('DATA_DIRECTORY_IN_USE', { directory: layout.directory, pid, reason })
}

async function launchOnce(layout: Layout, request: LaunchRequest): Promise<LaunchOutcome> {
  const logStart = await sizeOf(layout.log)
  const { child, end } = await spawnPostgres(layout, request)
  const begun = performance.now()
  for (;;) {
    await delay(pollMs)
    const reason = end()
    if (reason !== undefined) return { kind: 'ended', reason, log: await readLog(layout.log, logStart) }
    const answer = await askIn(layout, layout.sockets)
    if (answer.kind === 'proved')
      return { kind: 'answers', running: { pid: child.pid as number, ...answer.link } }
    const isLate = performance.now() - begun > startMsMax
    if (isLate || answer.kind === 'another') {
      await shutDown(layout, child.pid as number)
      const reason = isLate ? `it does not answer after ${startMsMax / 1000} s` : answer.reason
      return { kind: 'rejected', reason, log: await readLog(layout.log, logStart) }
    }
  }
}

interface Spawned {
  readonly child: ChildProcess
  /** Why it ended; undefined: it runs. */
  readonly end: () => string | undefined
}

async function spawnPostgres(layout: Layout, request: LaunchRequest): Promise<Spawned> {
  const { binaries, account } = request
  const directory = await directoryFor(account, layout.cluster)
  const log = await open(layout.log, 'a', 0o600)
  try {
    const child = spawn(binaries.postgres, ['-D', directory.argument, ...serverArguments(layout, binaries)], {
      ...spawnAs(account),
      cwd: '/',
      // Its own session, so that Ctrl-C reaches us and not the server while we still need it.
      detached: true,
      env: { ...programEnvironment(), ...stalePidIgnored(request.stalePid) },
      stdio: ['ignore', log.fd, log.fd, ...directory.stdio],
    })
    child.unref()
    // Listens at once: the process may end before the log is closed here.
    return { child, end: watchEnd(child) }
  } finally {
    await log.close()
    directory.close()
  }
}

function watchEnd(child: ChildProcess): () => string | undefined {
  let end: string | undefined
  child.once('error', (error) => {
    end = error.message
  })
  child.once('exit', (code, signal) => {
    end = `postgres ended with ${signal ?? `code ${code}`}`
  })
  return () => end
}

/** The settings that durability and privacy need, on the command line, where no configuration file can undo them. */
function serverArguments(layout: Layout, binaries: Binaries): string[] {
  const settings = {
    fsync: 'on',
    synchronous_commit: 'on',
    full_page_writes: 'on',
    listen_addresses: '',
    port,
    unix_socket_directories: layout.sockets === layout.cluster ? '.' : `"${layout.sockets}"`,
    unix_socket_permissions: '0700',
    logging_collector: 'off',
    cluster_name: `posthorn-${binaries.kind}`,
  }
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

/**
 * The pid that a crashed postmaster left in its lock files may now belong to another process, and PostgreSQL would take that
 * process for a running server. PostgreSQL ignores the pid in this variable (meant for the shell that runs pg_ctl) and still
 * checks the shared memory, which it would not do without the lock file.
 */
function stalePidIgnored(stalePid: number | undefined): Record<string, string> {
  return stalePid === undefined ? {} : { PG_GRANDPARENT_PID: `${stalePid}` }
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (codeOf(error) !== 'ESRCH') throw error
  }
}

/** Keeps one old log: it shows what came before a crash, and stays bounded for a server that runs for years. */
async function rotateLog(log: string): Promise<void> {
  if ((await sizeOf(log)) > logBytesMax) await rename(log, `${log}.1`)
}

async function sizeOf(path: string): Promise<number> {
  return (await unlessMissing(stat(path)))?.size ?? 0
}

/** The last lines that this start wrote, without their times. */
async function readLog(path: string, start: number): Promise<string> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    const buffer = Buffer.alloc(Math.min(size - start, 4000))
    await file.read(buffer, 0, buffer.length, size - buffer.length)
    const lines = buffer.toString().trim().split('\n').slice(-8)
    return lines.map((line) => line.replace(/^[\d-]+ [\d:.]+ \S+ \[\d+\] /, '')).join('\n')
  } finally {
    await file.close()
  }
}
