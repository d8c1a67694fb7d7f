import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto'
import { badOption } from '../../domain/bad-value.ts'
import type { PosthornError } from '../../errors.ts'

/*
 * Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`. The key is the bytes that a `whsec_` secret encodes.
 */

export const secretPrefix = 'whsec_'

/** The key that a secret encodes; undefined: it is not a secret. */
export function secretBytes(secret: string): Buffer | undefined {
  const base64 = secret.startsWith(secretPrefix) ? secret.slice(secretPrefix.length) : secret
  const bytes = Buffer.from(base64, 'base64')
  // Node skips characters that are not base64, so the bytes are encoded again and compared.
  if (withoutPadding(bytes.toString('base64')) !== withoutPadding(base64)) return undefined
  return bytes.length >= 16 && bytes.length <= 128 ? bytes : undefined
}

/** The keys of secrets that a user gave. The error for a bad secret does not show it. */
export function readSecrets(secrets: string | readonly string[]): Buffer[] {
  const keys = [secrets].flat().map(readSecret)
  if (keys.length === 0) throw badSecret('none')
  return keys
}

function readSecret(secret: unknown): Buffer {
  const bytes = typeof secret === 'string' ? secretBytes(secret) : undefined
  if (bytes === undefined) throw badSecret(secret === undefined ? 'undefined' : 'something else')
  return bytes
}

function badSecret(value: string): PosthornError {
  return badOption('secrets', 'whsec_ and base64 of 16 to 128 bytes', value)
}

export interface SignedContent {
  /** Without a dot: `a.1` with the body `x` would be signed like `a` at second 1 with another body. */
  readonly id: string
  /** Unix seconds of this attempt. */
  readonly timestamp: number
  readonly body: Uint8Array | string
}

/** One signature per secret, the newest first: a receiver needs to know only one of the secrets. */
export function signWith(secrets: readonly (Buffer | KeyObject)[], content: SignedContent): string {
  const [only, ...others] = secrets
  if (only !== undefined && others.length === 0) return `v1,${digest(only, content)}`
  return secrets.map((secret) => `v1,${digest(secret, content)}`).join(' ')
}

/** Whether one of the signatures was made with one of the secrets. Signatures that are not `v1` are ignored. */
export function isSignedBy(secrets: readonly Buffer[], header: string, content: SignedContent): boolean {
  const given = header
    .split(' ')
    .flatMap((signature) => (signature.startsWith('v1,') ? [Buffer.from(signature.slice(3))] : []))
  let matches = false
  for (const secret of secrets) {
    // Compared as text: several base64 spellings would decode to the same signature.
    const expected = Buffer.from(digest(secret, content))
    for (const signature of given) {
      if (signature.length === expected.length && timingSafeEqual(signature, expected)) matches = true
    }
  }
  return matches
}

export interface SignOptions {
  readonly id: string
  /** One secret, or several while they are rotated. */
  readonly secrets: string | readonly string[]
  /** The time of sending, in milliseconds since 1970. Default: now. */
  readonly now?: () => number
}

/** The headers that a sender adds, to test a receiver without a hub. */
export function sign(
  body: Uint8Array | string,
  { id, secrets, now = Date.now }: SignOptions,
): Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string> {
  const timestamp = Math.floor(now() / 1000)
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signWith(readSecrets(secrets), { id, timestamp, body }),
  }
}

function digest(secret: Buffer | KeyObject, { id, timestamp, body }: SignedContent): string {
  return createHmac('sha256', secret).update(`${id}.${timestamp}.`).update(body).digest('base64')
}

function withoutPadding(base64: string): string {
  return base64.replace(/={0,2}$/, '')
}
