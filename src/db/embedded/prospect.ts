import { stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { PosthornError } from '../../errors.ts'
import { chooseAccount } from './account.ts'
import { type Binaries, findBinaries } from './binaries.ts'

/** What a start would find. Nothing here makes or changes a data directory. */

/** Whether there is a database in it. */
export async function hasCluster(dataDirectory: string): Promise<boolean> {
  const directory = resolve(dataDirectory)
  try {
    return (await stat(join(directory, 'postgres', 'PG_VERSION'))).isFile()
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return false
    throw new PosthornError('DATA_DIRECTORY_UNUSABLE', { directory, reason: message }, { cause: error })
  }
}

/** The server that would make one. */
export async function findMaker(dataDirectory: string): Promise<Binaries> {
  const directory = resolve(dataDirectory)
  return findBinaries({ account: await chooseAccount(join(directory, 'postgres')), directory })
}
