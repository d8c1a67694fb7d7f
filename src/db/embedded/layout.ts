import { createHash } from 'node:crypto'
import { chmod, chown, lstat, mkdir, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import type { Account } from './account.ts'
import { codeOf, unusable } from './files.ts'

/**
 * The paths in a data directory. The cluster is one level down: so it can be made beside its place and renamed even if the
 * data directory is a mount point, and root can own the directory while the server's account owns only the cluster.
 */
export interface Layout {
  /** The data directory, its links resolved. */
  readonly directory: string
  /** PostgreSQL's own data directory. */
  readonly cluster: string
  readonly log: string
  /** The folder of the server's socket: the cluster, which only its owner may enter, if its path is short enough. */
  readonly sockets: string
}

export const port = 5432

/** The length of a socket's path on macOS, without the ending zero; Linux allows 107. */
const socketBytesMax = 103

export async function openLayout(dataDirectory: string): Promise<Layout> {
  const directory = await makeDirectory(resolve(dataDirectory))
  const cluster = join(directory, 'postgres')
  const fits = Buffer.byteLength(join(cluster, `.s.PGSQL.${port}`)) <= socketBytesMax
  const sockets = fits ? cluster : join(tmpdir(), shortName(directory))
  return { directory, cluster, log: join(directory, 'postgres.log'), sockets }
}

/** True for a socket directory that a start of ours would have used. */
export function isOurSockets(layout: Layout, sockets: string): boolean {
  // Another process may use another temporary folder.
  return sockets === layout.cluster || basename(sockets) === shortName(layout.directory)
}

/** Makes the short socket directory. If it exists, it must belong to the server's account. */
export async function prepareSockets(layout: Layout, account: Account): Promise<void> {
  if (layout.sockets === layout.cluster) return
  try {
    await mkdir(layout.sockets, { mode: 0o700 })
    if (account.kind === 'dropped') await chown(layout.sockets, account.uid, account.gid)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  }
  await checkSockets(layout, layout.sockets, account.uid)
}

/** Called when no server runs, so that nothing stays in the temporary folder. */
export async function removeSockets(layout: Layout): Promise<void> {
  if (layout.sockets !== layout.cluster) await rm(layout.sockets, { recursive: true, force: true })
}

/** The owner of the folder could answer in the server's name, so the folder must belong to the server's account alone. */
export async function checkSockets(layout: Layout, sockets: string, uid: number): Promise<void> {
  const found = await lstat(sockets)
  if (found.isDirectory() && found.uid === uid) {
    if ((found.mode & 0o077) !== 0 && sockets !== layout.cluster) await chmod(sockets, 0o700)
    return
  }
  const reason = `its socket folder ${sockets} belongs to the user with id ${found.uid} instead of ${uid}`
  throw unusable(layout.directory, reason)
}

async function makeDirectory(directory: string): Promise<string> {
  try {
    await mkdir(dirname(directory), { recursive: true })
    await mkdir(directory, { mode: 0o700 }).catch((error: unknown) => {
      if (codeOf(error) !== 'EEXIST') throw error
    })
    const real = await realpath(directory)
    if ((await lstat(real)).isDirectory()) return real
  } catch (error) {
    throw unusable(directory, (error as Error).message, error)
  }
  throw unusable(directory, 'it is not a directory')
}

function shortName(directory: string): string {
  return `posthorn-${createHash('sha256').update(directory).digest('hex').slice(0, 16)}`
}
