import { readFile, rm, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { codeOf, unlessMissing, unusable } from './files.ts'
import { runProgram } from './program.ts'

/** The file that a postmaster writes into its cluster. It survives a crash, so it does not prove that a server runs. */
interface PidFile {
  readonly pid: number
  /** Absent until the postmaster listens. */
  readonly sockets?: string
}

/** Which process has a pid: none, another program, the cluster's postmaster, or a postgres that we may not inspect. */
type Occupant = 'nobody' | 'stranger' | 'postmaster' | 'unknown'

export async function readPidFile(cluster: string): Promise<PidFile | 'empty' | undefined> {
  const text = await textOf(join(cluster, 'postmaster.pid'))
  if (text === undefined) return undefined
  if (text === '') return 'empty'
  const lines = text.split('\n')
  const pid = pidOf(text)
  if (pid === undefined) {
    const reason = 'its postmaster.pid holds no pid: if no server runs on it, delete that file'
    throw unusable(cluster, reason)
  }
  const sockets = lines.length > 5 ? lines[4] : undefined
  return sockets ? { pid, sockets: resolve(cluster, sockets) } : { pid }
}

/**
 * Removes lock files that would stop a start for no reason. The caller knows that no server runs. A killed server may leave
 * an empty lock file, or a socket's lock file with a pid that now belongs to another program. A postmaster.pid with a pid
 * stays, because PostgreSQL needs it to find the shared memory of that server.
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

/** The system soon gives a pid to another process, in a container at once, so it is not enough that the process lives. */
export async function occupantOf(pid: number, cluster: string): Promise<Occupant> {
  const signal = probeSignal(pid)
  if (signal === 'ESRCH') return 'nobody'
  // The postmaster runs as the owner of the cluster. That is our own user, unless we are root, and root may signal everybody.
  if (signal === 'EPERM') return 'stranger'
  return process.platform === 'linux' ? lookIntoProc(pid, cluster) : askPs(pid)
}

function probeSignal(pid: number): string | undefined {
  try {
    process.kill(pid, 0)
    return undefined
  } catch (error) {
    return codeOf(error)
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
    const code = codeOf(error)
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

function textOf(path: string): Promise<string | undefined> {
  return unlessMissing(readFile(path, 'utf8'), ['ESRCH'])
}
