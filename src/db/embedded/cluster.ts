import { constants } from 'node:fs'
import { mkdtemp, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { PosthornError } from '../../errors.ts'
import { type Account, directoryFor, giveTo } from './account.ts'
import type { Binaries } from './binaries.ts'
import { unlessMissing, unusable } from './files.ts'
import type { Layout } from './layout.ts'
import { occupantOf, readPidFile } from './pid-file.ts'
import { runProgram } from './program.ts'

export const superuser = 'posthorn'

/** Written once, when the cluster is made; operators may tune them. The settings for durability are on the command line. */
const settings = `
# Settings of posthorn for a queue: many small commits, much churn in few tables.
max_connections = 200
shared_buffers = 192MB
max_wal_size = 2GB
min_wal_size = 256MB
wal_compression = on
wal_writer_delay = 10ms
checkpoint_timeout = 15min
autovacuum = on
autovacuum_naptime = 15s
jit = off
# The statements of failed queries hold payloads, which have no place in a log.
log_min_error_statement = panic
`

/** The major version of the cluster in the data directory; undefined if there is none and one may be made. */
export async function clusterMajor(layout: Layout): Promise<number | undefined> {
  const inCluster = await entriesOf(layout.cluster)
  if (inCluster.includes('PG_VERSION') && inCluster.includes('global')) {
    return Number.parseInt(await readFile(join(layout.cluster, 'PG_VERSION'), 'utf8'), 10)
  }
  if (inCluster.length > 0)
    throw unusable(layout.directory, 'its folder postgres is not empty and not a PostgreSQL cluster')
  const foreign = (await entriesOf(layout.directory)).filter((name) => !isOurs(name))
  if (foreign.includes('PG_VERSION')) await refuseForeignCluster(layout)
  if (foreign.length > 0)
    throw unusable(layout.directory, `it is not empty and not posthorn's: it holds ${foreign[0]}`)
  return undefined
}

/** True if the data directory holds a database. Makes nothing. */
export async function hasCluster(dataDirectory: string): Promise<boolean> {
  const directory = resolve(dataDirectory)
  const found = await unlessMissing(stat(join(directory, 'postgres', 'PG_VERSION'))).catch((error: Error) => {
    throw unusable(directory, error.message, error)
  })
  return found?.isFile() ?? false
}

/** Makes the cluster beside its place and renames it: whenever we are killed, the cluster is complete or absent. */
export async function makeCluster(layout: Layout, binaries: Binaries, account: Account): Promise<void> {
  const unfinished = await mkdtemp(`${layout.cluster}.new-`)
  try {
    await giveTo(account, unfinished)
    await runInitdb(layout, binaries, account, unfinished)
    await appendSettings(join(unfinished, 'postgresql.conf'))
    await rename(unfinished, layout.cluster)
    await syncDirectory(layout.directory)
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true })
    throw error
  }
}

/** Removes what a killed start left behind. If its initdb is still writing, that fails, and the next start tries again. */
export async function removeUnfinished(layout: Layout, log: (line: string) => void): Promise<void> {
  for (const name of await entriesOf(layout.directory)) {
    if (!isUnfinished(name)) continue
    try {
      await rm(join(layout.directory, name), { recursive: true, force: true, maxRetries: 3 })
    } catch (error) {
      log(`the unfinished cluster ${name} could not be removed: ${(error as Error).message}`)
    }
  }
}

async function runInitdb(
  layout: Layout,
  binaries: Binaries,
  account: Account,
  directory: string,
): Promise<void> {
  const handle = await directoryFor(account, directory)
  try {
    const result = await runProgram({
      file: binaries.initdb,
      arguments: [
        ...['-D', handle.argument, '-U', superuser, '--encoding=UTF8', '--locale=C', '--data-checksums'],
        ...['--auth-local=trust', '--auth-host=reject', '--no-instructions'],
      ],
      account,
      directory: handle,
      timeoutMs: 120_000,
    })
    if (result.kind === 'ended' && result.code === 0) return
    const reason = result.kind === 'ended' ? `initdb ended with code ${result.code}` : result.reason
    const log = result.kind === 'ended' ? result.output.slice(-2000) : ''
    throw new PosthornError('EMBEDDED_FAILED', { directory: layout.directory, reason, log })
  } finally {
    handle.close()
  }
}

/** Follows no link: the folder belongs to an account that we, as root, do not trust. */
async function appendSettings(file: string): Promise<void> {
  const handle = await open(file, constants.O_WRONLY | constants.O_APPEND | constants.O_NOFOLLOW)
  try {
    await handle.writeFile(settings)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, constants.O_RDONLY)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function refuseForeignCluster(layout: Layout): Promise<never> {
  const { directory } = layout
  const reason = 'it holds a PostgreSQL cluster that posthorn did not make'
  const file = await readPidFile(directory)
  if (typeof file === 'object' && ['postmaster', 'unknown'].includes(await occupantOf(file.pid, directory))) {
    throw new PosthornError('DATA_DIRECTORY_IN_USE', { directory, pid: file.pid, reason })
  }
  throw unusable(directory, reason)
}

/** Names of the database, of the rest of posthorn, and the folder that every new volume holds. */
function isOurs(name: string): boolean {
  return isUnfinished(name) || /^(postgres|postgres\.log(\.1)?|posthorn[.-].*|lost\+found)$/.test(name)
}

function isUnfinished(name: string): boolean {
  return name.startsWith('postgres.new-')
}

async function entriesOf(directory: string): Promise<string[]> {
  return (await unlessMissing(readdir(directory))) ?? []
}
