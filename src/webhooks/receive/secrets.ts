import { PosthornError } from '../../errors.ts'
import { secretBytes } from './signature.ts'

/** The keys of secrets that a user gave. A bad one is refused without being shown. */
export function readSecrets(secrets: string | readonly string[]): Buffer[] {
  const keys = [secrets].flat().map(readSecret)
  if (keys.length === 0) throw badSecret('none')
  return keys
}

function readSecret(secret: unknown): Buffer {
  if (typeof secret !== 'string') throw badSecret(secret === undefined ? 'undefined' : 'something else')
  const bytes = secretBytes(secret)
  if (bytes === undefined) throw badSecret('something else')
  return bytes
}

function badSecret(value: string): PosthornError {
  return new PosthornError('BAD_OPTION', {
    option: 'secrets',
    expected: 'whsec_ and base64 of 16 to 128 bytes',
    value,
  })
}
