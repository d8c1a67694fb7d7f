import { randomBytes } from 'node:crypto'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { PosthornError } from '../errors.ts'
import type { Archive, AuditText } from './prune-audit.ts'

/** Writes audit records to files in the directory. Null: no directory is set, and nothing is archived. */
export function archiver(directory: string | undefined): Archive | null {
  if (directory === undefined) return null
  return ({ schema }, records) => archive(directory, `${schema.replaceAll('"', '')}-audit`, records)
}

/**
 * Writes records to a new compressed file, one JSON text a line. The file gets its name only when all of it is on the disk.
 * No file is ever overwritten: after a database was restored the same ids may come again. Throws ARCHIVE_FAILED.
 */
async function archive(directory: string, prefix: string, records: readonly AuditText[]): Promise<void> {
  const [first, last] = [records[0], records.at(-1)].map((record) => digits(record?.id))
  const name = `${prefix}-${first}-${last}-${randomBytes(4).toString('hex')}.jsonl.gz`
  const unfinished = join(directory, `.${name}.tmp`)
  try {
    await mkdir(directory, { recursive: true })
    await writeDurably(unfinished, await compress(records.map(({ text }) => `${text}\n`).join('')))
    await rename(unfinished, join(directory, name))
    await syncDirectory(directory)
  } catch (error) {
    await rm(unfinished, { force: true }).catch(() => undefined)
    const reason = error instanceof Error ? error.message : String(error)
    throw new PosthornError('ARCHIVE_FAILED', { directory, reason }, { cause: error })
  }
}

const compress = promisify(gzip)

async function writeDurably(path: string, bytes: Buffer): Promise<void> {
  const file = await open(path, 'wx', 0o600)
  try {
    await file.writeFile(bytes)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Makes the new name outlive a crash of the machine. Windows cannot do this, and need not. */
async function syncDirectory(directory: string): Promise<void> {
  if (process.platform === 'win32') return
  const handle = await open(directory, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Padded, so that files sorted by name are sorted by id. */
function digits(id: number | undefined): string {
  return String(id).padStart(16, '0')
}
