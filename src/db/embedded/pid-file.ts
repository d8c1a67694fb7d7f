import { readFile, rm, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { PosthornError } from '../../errors.ts'
import { runProgram } from './program.ts'

/** What a postmaster writes into its cluster. It survives a crash, so alone it proves nothing. */
export interface PidFile {
  readonly pid: number
  /** Absent until the postmaster listens. */
  readonly sockets?: string
}

/** What lives under a pid: nobody, someone else, the cluster's postmaster, or a postgres we can't look into. */
export type Occupant = 'nobody' | 'stranger' | 'postmaster' | 'unknown'

export async function readPidFile(cluster: string): Promise<PidFile | 'empty' | undefined> {
  const text = await textOf(join(cluster, 'postmaster.pid'))
  if (text === undefined) return undefined
  if (text === '') return 'empty'
  const lines = text.split('\n')
  const pid = pidOf(text)
  if (pid === undefined) {
    const reason = 'its postmaster.pid holds no pid: if no server runs on it, delete that file'
    throw new PosthornError('DATA_DIRECTORY_UNUSABLE', { directory: cluster, reason })
  }
  const sockets = lines.length > 5 ? lines[4] : undefined
  return sockets ? { pid, sockets: resolve(cluster, sockets) } : { pid }
}

/**
 * Removes the lock files that would stop a start for no reason, once it is known that no server runs: a killed
 * server may leave one of them empty, or a socket's with the pid of an earlier server that is someone else's now.
 * A postmaster.pid with a pid stays, because PostgreSQL needs it to find the shared memory of that server.
 */
export async function removeStaleLocks(cluster: string, socketLock: string): Promise<void> {
  if ((await readPidFile(cluster)) === 'empty') await rm(join(cluster, 'postmaster.pid'), { force: true })
  const text = await textOf(socketLock)
  if (text === undefined) return
  const pid = pidOf(text)
  if (pid === undefined || (await occupantOf(pid, cluster)) === 'stranger')
    await rm(socketLock, { force: true })
}

/** A server in single-user mode writes its pid negated. */
function pidOf(text: string): number | undefined {
  const pid = Math.abs(Number(text.split('\n')[0]))
  return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined
}

/** A pid is soon given to another process, in a container at once, so being alive is not enough. */
export async function occupantOf(pid: number, cluster: string): Promise<Occupant> {
  const signal = probeSignal(pid)
  if (signal === 'ESRCH') return 'nobody'
  // The postmaster runs as the owner of its cluster, which we are unless we are root: then nothing is denied.
  if (signal === 'EPERM') return 'stranger'
  return process.platform === 'linux' ? lookIntoProc(pid, cluster) : askPs(pid)
}

function probeSignal(pid: number): string | undefined {
  try {
    process.kill(pid, 0)
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code
  }
}

async function lookIntoProc(pid: number, cluster: string): Promise<Occupant> {
  const status = await textOf(`/proc/${pid}/stat`)
  if (status === undefined) return 'nobody'
  const name = status.slice(status.indexOf('(') + 1, status.lastIndexOf(')'))
  const state = status.slice(status.lastIndexOf(')') + 2)[0]
  // A dead process that nobody has waited for still answers signals.
  if (state === 'Z' || state === 'X') return 'stranger'
  if (name !== 'postgres' && name !== 'postmaster') return 'stranger'
  try {
    // A postmaster lives in its cluster. Compared by inode, because a mount can give one folder two paths.
    const [home, ours] = [await stat(`/proc/${pid}/cwd`), await stat(cluster)]
    return home.dev === ours.dev && home.ino === ours.ino ? 'postmaster' : 'stranger'
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ESRCH') return 'nobody'
    // Root in a container may lack the right to look.
    if (code === 'EACCES' || code === 'EPERM') return 'unknown'
    throw error
  }
}

async function askPs(pid: number): Promise<Occupant> {
  const account = { kind: 'self', uid: process.getuid?.() ?? 0 } as const
  const request = { file: '/bin/ps', arguments: ['-o', 'comm=', '-p', `${pid}`], account, timeoutMs: 5000 }
  const result = await runProgram(request)
  if (result.kind === 'not started') return 'unknown'
  if (result.code !== 0) return 'nobody'
  return /(^|\/)(postgres|postmaster)\b/.test(result.output) ? 'unknown' : 'stranger'
}

async function textOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ESRCH') return undefined
    throw error
  }
}
