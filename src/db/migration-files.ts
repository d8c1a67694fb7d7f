import { createHash } from 'node:crypto'
import { PosthornError } from '../errors.ts'
import { readMigrationFolder } from './migration-folder.ts'
import { packagedMigrations } from './packaged-migrations.ts'

export interface Migration {
  readonly number: number
  /** The name of its file or folder without `.sql`: `0001_baseline`. */
  readonly name: string
  /** Of the text before the schema's name is filled in, so the checksum is the same in every schema. */
  readonly checksum: string
  /** Ends with a semicolon. */
  readonly text: string
  readonly transactional: boolean
}

const namePattern = /^(\d{4})_[a-z0-9_-]+$/

/** All migrations of the package, or of a folder, in the order of their numbers. The numbers begin at 1 and have no gap. */
export async function readMigrations(directory?: URL): Promise<Migration[]> {
  const texts = await (directory === undefined ? packagedMigrations() : readMigrationFolder(directory))
  return [...texts].map(([name, text], index) => readMigration(name, text, index + 1))
}

function readMigration(name: string, given: string, expected: number): Migration {
  const number = Number(namePattern.exec(name)?.[1])
  if (number !== expected) {
    const prefix = String(expected).padStart(4, '0')
    const wanted = `a folder with the migration ${prefix}_name.sql next`
    throw new PosthornError('BAD_OPTION', { option: 'directory', expected: wanted, value: name })
  }
  // A checkout on Windows may have other line ends; the migration is the same.
  const text = given.replaceAll('\r\n', '\n').trimEnd()
  return {
    number,
    name,
    checksum: createHash('sha256').update(text).digest('hex'),
    text: text.endsWith(';') ? text : `${text}\n;`,
    transactional: !text.startsWith('-- no transaction'),
  }
}
