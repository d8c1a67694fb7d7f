import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { badOption } from '../../domain/bad-value.ts'
import { PosthornError } from '../../errors.ts'

/** A key, and the id that stored texts name it by. */
export interface VaultKey {
  readonly id: string
  readonly bytes: Buffer
}

const algorithm = 'aes-256-gcm'
const ivBytes = 12
const tagBytes = 16

/**
 * Encrypts secrets for storage. A sealed text names its key, so that keys can be changed: the first key seals, all keys open. The
 * context binds a secret to its row: a copy in another row does not open.
 */
export class Vault {
  readonly #keys: readonly VaultKey[]

  constructor(keys: readonly VaultKey[]) {
    this.#keys = keys
  }

  /** Whether there is a key. */
  get isReady(): boolean {
    return this.#keys.length > 0
  }

  seal(secret: string, context: string): string {
    const [key] = this.#keys
    if (key === undefined) throw new PosthornError('SECRET_KEY_MISSING')
    const iv = randomBytes(ivBytes)
    const cipher = createCipheriv(algorithm, key.bytes, iv).setAAD(Buffer.from(context))
    const sealed = Buffer.concat([iv, cipher.update(secret, 'utf8'), cipher.final(), cipher.getAuthTag()])
    return prefixOf(key) + sealed.toString('base64url')
  }

  open(text: string, context: string): string {
    const { keyId, iv, sealed, tag } = readSealed(text)
    const key = this.#keys.find(({ id }) => id === keyId)
    if (key === undefined) throw new PosthornError('SECRET_KEY_WRONG', { keyId })
    try {
      const decipher = createDecipheriv(algorithm, key.bytes, iv, { authTagLength: tagBytes })
        .setAAD(Buffer.from(context))
        .setAuthTag(tag)
      return Buffer.concat([decipher.update(sealed), decipher.final()]).toString('utf8')
    } catch (error) {
      throw new PosthornError('SECRET_KEY_WRONG', { keyId }, { cause: error })
    }
  }

  /** The beginning of every text that the current key seals. */
  get prefix(): string {
    const [key] = this.#keys
    if (key === undefined) throw new PosthornError('SECRET_KEY_MISSING')
    return prefixOf(key)
  }
}

function prefixOf({ id }: VaultKey): string {
  return `v1.${id}.`
}

/** Strict: Node skips characters that are not base64, and accepts a tag that was cut short. */
function readSealed(text: string): { keyId: string; iv: Buffer; sealed: Buffer; tag: Buffer } {
  const [, keyId = 'unknown', base64 = ''] = /^v1\.([^.]+)\.([^.]+)$/.exec(text) ?? []
  const bytes = Buffer.from(base64, 'base64url')
  if (bytes.toString('base64url') !== base64 || bytes.length < ivBytes + tagBytes) {
    throw new PosthornError('SECRET_KEY_WRONG', { keyId })
  }
  const tagAt = bytes.length - tagBytes
  return {
    keyId,
    iv: bytes.subarray(0, ivBytes),
    sealed: bytes.subarray(ivBytes, tagAt),
    tag: bytes.subarray(tagAt),
  }
}

/** 32 bytes as base64 or hex; several are separated by commas, the newest first. Errors name the option `name`. */
export function parseVaultKeys(text: string, name = 'POSTHORN_SECRET_KEY'): VaultKey[] {
  return text.split(',').map((part) => {
    const bytes = keyBytes(part.trim(), name)
    return { id: createHash('sha256').update(bytes).digest('hex').slice(0, 8), bytes }
  })
}

/** The form is checked first: Node would decode any passphrase as base64, and the result may have 32 bytes. */
function keyBytes(value: string, option: string): Buffer {
  if (/^[0-9a-f]{64}$/i.test(value)) return Buffer.from(value, 'hex')
  if (/^[A-Za-z0-9+/_-]{43}=?$/.test(value)) return Buffer.from(value, 'base64')
  const expected = '32 random bytes as base64 or hex (openssl rand -base64 32)'
  throw badOption(option, expected, 'something else')
}

/**
 * Makes a vault with the keys of `POSTHORN_SECRET_KEY`. The embedded database belongs to this machine alone, so a key is made and
 * kept beside its data, and nothing has to be set up; a key from the environment is used before it.
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

/** If two processes come at the same time, one makes the key and both use it. */
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
