import { createHash } from 'node:crypto'
import { PosthornError } from '../errors.ts'
import { readMigrationFolder } from './migration-folder.ts'
import { packagedMigrations } from './packaged-migrations.ts'

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

const filePattern = /^(\d{4})_[a-z0-9_-]+\.sql$/

/** All migrations of the package, or of a folder, in the order of their numbers, which run from 1 without a gap. */
export async function readMigrations(directory?: URL): Promise<Migration[]> {
  const texts = await (directory === undefined ? packagedMigrations() : readMigrationFolder(directory))
  return [...texts].map(([file, text], index) => readMigration(file, text, index + 1))
}

function readMigration(file: string, given: string, expected: number): Migration {
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
  const text = given.replaceAll('\r\n', '\n').trimEnd()
  return {
    number,
    name: file.slice(0, -'.sql'.length),
    checksum: createHash('sha256').update(text).digest('hex'),
    text: text.endsWith(';') ? text : `${text}\n;`,
    transactional: !text.startsWith('-- no transaction'),
  }
}
