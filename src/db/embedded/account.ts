import type { SpawnOptions } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { chown, lchown, readdir, readFile, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { unlessMissing, unusable } from './files.ts'

/** Who runs the server: our own user, or, if we are root, a user without rights, because PostgreSQL refuses to run as root. */
export type Account =
  | { readonly kind: 'self'; readonly uid: number }
  | { readonly kind: 'dropped'; readonly uid: number; readonly gid: number }

/** An existing cluster is run by its owner; a new one by `postgres`, or `nobody` where there is none. */
export async function chooseAccount(cluster: string): Promise<Account> {
  const uid = process.getuid?.() ?? 0
  const owner = await ownerOf(cluster)
  if (uid !== 0) {
    if (owner && owner.uid !== uid) {
      const reason = `it belongs to the user with id ${owner.uid}, and this process runs as ${uid}`
      throw unusable(cluster, reason)
    }
    return { kind: 'self', uid }
  }
  if (owner && owner.uid !== 0) return { kind: 'dropped', ...owner }
  return unprivilegedAccount(cluster)
}

/** Gives a cluster that root owns, because root copied or restored it, to the account that runs the server. */
export async function handOver(account: Account, cluster: string): Promise<void> {
  if (account.kind === 'dropped' && (await stat(cluster)).uid === 0) await giveTree(account, cluster)
}

export function spawnAs(account: Account): Pick<SpawnOptions, 'uid' | 'gid'> {
  return account.kind === 'dropped' ? { uid: account.uid, gid: account.gid } : {}
}

/** Gives one file or folder to the account. Only for paths that the account cannot replace by a link. */
export async function giveTo(account: Account, path: string): Promise<void> {
  if (account.kind === 'dropped') await chown(path, account.uid, account.gid)
}

export interface DirectoryHandle {
  /** The directory as an argument for the program. */
  readonly argument: string
  /** The open files that the program must inherit for that argument to work. */
  readonly stdio: readonly number[]
  close(): void
}

/**
 * Names a directory for a program that the account runs. Below a folder that the account may not enter, such as /root, the
 * program inherits the open directory and reaches it through /proc instead of by its path.
 */
export async function directoryFor(account: Account, directory: string): Promise<DirectoryHandle> {
  if (account.kind === 'self' || (await canReach(account, directory))) {
    return { argument: directory, stdio: [], close: () => undefined }
  }
  if (process.platform !== 'linux') {
    const reason = `the user with id ${account.uid}, who runs the server because root may not, cannot enter its parents`
    throw unusable(directory, reason)
  }
  const descriptor = openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY)
  return { argument: '/proc/self/fd/3', stdio: [descriptor], close: () => closeSync(descriptor) }
}

/** Judged by mode bits alone: if an access list allows more, the way through /proc works as well. */
async function canReach(account: Extract<Account, { kind: 'dropped' }>, path: string): Promise<boolean> {
  for (let parent = dirname(path); ; parent = dirname(parent)) {
    const { mode, uid, gid } = await stat(parent)
    const executeBit = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001
    if ((mode & executeBit) === 0) return false
    if (parent === dirname(parent)) return true
  }
}

async function ownerOf(path: string): Promise<{ uid: number; gid: number } | undefined> {
  const found = await unlessMissing(stat(path)).catch((error: Error) => {
    throw unusable(path, error.message, error)
  })
  return found && { uid: found.uid, gid: found.gid }
}

async function unprivilegedAccount(directory: string): Promise<Extract<Account, { kind: 'dropped' }>> {
  const lines = (await readFile('/etc/passwd', 'utf8')).split('\n')
  for (const name of ['postgres', 'nobody']) {
    const fields = lines.find((line) => line.startsWith(`${name}:`))?.split(':')
    // `>>> 0` because some systems write nobody's id as -2.
    if (fields) return { kind: 'dropped', uid: Number(fields[2]) >>> 0, gid: Number(fields[3]) >>> 0 }
  }
  const reason = 'PostgreSQL refuses to run as root, and there is neither a user postgres nor a user nobody'
  throw unusable(directory, reason)
}

async function giveTree(account: Extract<Account, { kind: 'dropped' }>, directory: string): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) await giveTree(account, path)
    else await lchown(path, account.uid, account.gid)
  }
  await lchown(directory, account.uid, account.gid)
}
