import { createHash } from 'node:crypto'
import { chmod, chown, lstat, mkdir, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { PosthornError } from '../../errors.ts'
import type { Account } from './account.ts'

/**
 * What is where in a data directory. The cluster is one level down, so that it can be made beside its place
 * and renamed even if the data directory itself is a mount point, and so that root can keep the directory
 * while the server's account owns only the cluster.
 */
export interface Layout {
  /** The data directory, its links resolved. */
  readonly directory: string
  /** PostgreSQL's own data directory. */
  readonly cluster: string
  readonly log: string
  /** Where the server's socket is: in the cluster, which only its owner may enter, if the path is short enough. */
  readonly sockets: string
}

export const port = 5432

/** What fits into a socket address on Linux (107) and macOS (103), the ending zero left out. */
const socketBytesMax = 103

export async function openLayout(dataDirectory: string): Promise<Layout> {
  const directory = await makeDirectory(resolve(dataDirectory))
  const cluster = join(directory, 'postgres')
  const fits = Buffer.byteLength(join(cluster, `.s.PGSQL.${port}`)) <= socketBytesMax
  const sockets = fits ? cluster : join(tmpdir(), shortName(directory))
  return { directory, cluster, log: join(directory, 'postgres.log'), sockets }
}

/** Whether a socket directory, as a postmaster wrote it down, is one that a start of ours would have used. */
export function isOurSockets(layout: Layout, sockets: string): boolean {
  // Another process may have another idea of the temporary folder.
  return sockets === layout.cluster || basename(sockets) === shortName(layout.directory)
}

/** Makes the short socket directory, or accepts it if it is there and belongs to nobody but us. */
export async function prepareSockets(layout: Layout, account: Account): Promise<void> {
  if (layout.sockets === layout.cluster) return
  try {
    await mkdir(layout.sockets, { mode: 0o700 })
    if (account.kind === 'dropped') await chown(layout.sockets, account.uid, account.gid)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  await checkSockets(layout, layout.sockets, account.uid)
}

/** Once no server runs, so that nothing of ours stays in the temporary folder. */
export async function removeSockets(layout: Layout): Promise<void> {
  if (layout.sockets !== layout.cluster) await rm(layout.sockets, { recursive: true, force: true })
}

/** Who owns the folder could answer in the server's name, so it must be the server's owner, and he alone. */
export async function checkSockets(layout: Layout, sockets: string, uid: number): Promise<void> {
  const found = await lstat(sockets)
  if (found.isDirectory() && found.uid === uid) {
    if ((found.mode & 0o077) !== 0 && sockets !== layout.cluster) await chmod(sockets, 0o700)
    return
  }
  const reason = `its socket folder ${sockets} belongs to the user with id ${found.uid} instead of ${uid}`
  throw new PosthornError('DATA_DIRECTORY_UNUSABLE', { directory: layout.directory, reason })
}

async function makeDirectory(directory: string): Promise<string> {
  try {
    await mkdir(dirname(directory), { recursive: true })
    await mkdir(directory, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
    const real = await realpath(directory)
    if ((await lstat(real)).isDirectory()) return real
  } catch (error) {
    const reason = (error as Error).message
    throw new PosthornError('DATA_DIRECTORY_UNUSABLE', { directory, reason }, { cause: error })
  }
  throw new PosthornError('DATA_DIRECTORY_UNUSABLE', { directory, reason: 'it is not a directory' })
}

function shortName(directory: string): string {
  return `posthorn-${createHash('sha256').update(directory).digest('hex').slice(0, 16)}`
}
