import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { PosthornError } from '../errors.ts'

export interface Migration {
  readonly number: number
  /** The file's name without its ending: `0001_initial`. */
  readonly name: string
  /** Of the text with its token, so that it is the same in every schema. */
  readonly checksum: string
  /** Ends with a semicolon. */
  readonly text: string
  readonly transactional: boolean
}

/** In the package's root, which is two levels up from both src/db and dist/db. */
const packaged = new URL('../../migrations/', import.meta.url)

const filePattern = /^(\d{4})_[a-z0-9_-]+\.sql$/

/** All migrations of a folder, in the order of their numbers, which run from 1 without a gap. */
export async function readMigrations(directory: URL = packaged): Promise<Migration[]> {
  const folder = directory.href.endsWith('/') ? directory : new URL(`${directory.href}/`)
  const files = (await readdir(folder)).filter((file) => file.endsWith('.sql')).sort()
  return Promise.all(files.map((file, index) => readMigration(folder, file, index + 1)))
}

async function readMigration(folder: URL, file: string, expected: number): Promise<Migration> {
  const number = Number(filePattern.exec(file)?.[1])
  if (number !== expected) {
    const prefix = String(expected).padStart(4, '0')
    throw new PosthornError('BAD_OPTION', {
      option: 'directory',
      expected: `a folder with ${prefix}_name.sql next`,
      value: file,
    })
  }
  // A checkout on Windows may have other line ends, but not another migration.
  const text = (await readFile(new URL(file, folder), 'utf8')).replaceAll('\r\n', '\n').trimEnd()
  return {
    number,
    name: file.slice(0, -'.sql'.length),
    checksum: createHash('sha256').update(text).digest('hex'),
    text: text.endsWith(';') ? text : `${text}\n;`,
    transactional: !text.startsWith('-- no transaction'),
  }
}
