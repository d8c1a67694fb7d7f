import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { PosthornError } from '../../errors.ts'

/** A key for what is stored encrypted, under the name by which it is found again. */
export interface VaultKey {
  readonly id: string
  readonly bytes: Buffer
}

const algorithm = 'aes-256-gcm'
const ivBytes = 12
const tagBytes = 16

/**
 * Keeps secrets unreadable at rest. What it seals bears the name of its key, so that keys can be changed: the first
 * seals, all open. The context binds a secret to its place: copied elsewhere it does not open.
 */
export class Vault {
  readonly #keys: readonly VaultKey[]

  constructor(keys: readonly VaultKey[]) {
    this.#keys = keys
  }

  /** Whether anything can be sealed at all. */
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

  /** What begins all that is sealed with the key that seals now. */
  get prefix(): string {
    const [key] = this.#keys
    if (key === undefined) throw new PosthornError('SECRET_KEY_MISSING')
    return prefixOf(key)
  }
}

function prefixOf({ id }: VaultKey): string {
  return `v1.${id}.`
}

/** Only as it was written: Node reads past what is no base64, and takes a tag that was cut short for a tag. */
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

/** 32 bytes as base64 or hex, several with commas between them, the newest first. Errors call them by `name`. */
export function parseVaultKeys(text: string, name = 'POSTHORN_SECRET_KEY'): VaultKey[] {
  return text.split(',').map((part) => {
    const bytes = keyBytes(part.trim(), name)
    return { id: createHash('sha256').update(bytes).digest('hex').slice(0, 8), bytes }
  })
}

/** The form is checked first: of a passphrase Node would read whatever looks like base64, and that may be 32 bytes. */
function keyBytes(value: string, option: string): Buffer {
  if (/^[0-9a-f]{64}$/i.test(value)) return Buffer.from(value, 'hex')
  if (/^[A-Za-z0-9+/_-]{43}=?$/.test(value)) return Buffer.from(value, 'base64')
  throw new PosthornError('BAD_OPTION', {
    option,
    expected: '32 random bytes as base64 or hex (openssl rand -base64 32)',
    value: 'something else',
  })
}
