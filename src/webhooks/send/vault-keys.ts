import { randomBytes } from 'node:crypto'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PosthornError } from '../../errors.ts'
import { parseVaultKeys, Vault } from './vault.ts'

/**
 * What opens the vault: `POSTHORN_SECRET_KEY`. With the embedded database, which is this machine's alone, a key is made
 * and kept beside it, so that nothing has to be set up; one from the environment goes before it.
 */
export async function openVault(
  secretKey: string | undefined,
  dataDirectory: string | undefined,
): Promise<Vault> {
  const given = secretKey === undefined ? [] : parseVaultKeys(secretKey)
  if (dataDirectory === undefined) return new Vault(given)
  const path = join(dataDirectory, 'secret-key')
  const found = (await readKey(path)) ?? (given.length === 0 ? await makeKey(path) : undefined)
  if (found === undefined) return new Vault(given)
  return new Vault([...given, ...keptKeys(path, found)])
}

function keptKeys(path: string, text: string) {
  try {
    return parseVaultKeys(text.trim())
  } catch (error) {
    throw new PosthornError(
      'DATA_DIRECTORY_UNUSABLE',
      { directory: path, reason: 'it holds no key' },
      { cause: error },
    )
  }
}

async function readKey(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Of two processes that come together one makes it, and both have the same. */
async function makeKey(path: string): Promise<string> {
  const key = randomBytes(32).toString('base64')
  try {
    const file = await open(path, 'wx', 0o600)
    await file.writeFile(`${key}\n`)
    await file.sync()
    await file.close()
    return key
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return (await readKey(path)) ?? key
  }
}
