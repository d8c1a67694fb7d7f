import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto'

/** Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, by the bytes that a `whsec_` secret stands for. */

export const secretPrefix = 'whsec_'

/** The key that a secret stands for; undefined where it is none. */
export function secretBytes(secret: string): Buffer | undefined {
  const base64 = secret.startsWith(secretPrefix) ? secret.slice(secretPrefix.length) : secret
  const bytes = Buffer.from(base64, 'base64')
  // Node reads past what is no base64, so what comes out is written again to see whether it was all there.
  if (withoutPadding(bytes.toString('base64')) !== withoutPadding(base64)) return undefined
  return bytes.length >= 16 && bytes.length <= 128 ? bytes : undefined
}

export interface SignedContent {
  /** Without a dot: `a.1` with the body `x` would be signed like `a` at second 1 with another body. */
  readonly id: string
  /** Unix seconds of this attempt. */
  readonly timestamp: number
  readonly body: Uint8Array | string
}

/** One signature per secret, the newest first: a receiver needs to know one of them. */
export function signWith(secrets: readonly (Buffer | KeyObject)[], content: SignedContent): string {
  const [only, ...others] = secrets
  if (only !== undefined && others.length === 0) return `v1,${digest(only, content)}`
  return secrets.map((secret) => `v1,${digest(secret, content)}`).join(' ')
}

/** Whether one of the signatures is made with one of the secrets. What is not `v1` is passed over. */
export function isSignedBy(secrets: readonly Buffer[], header: string, content: SignedContent): boolean {
  const given = header
    .split(' ')
    .flatMap((signature) => (signature.startsWith('v1,') ? [Buffer.from(signature.slice(3))] : []))
  let matches = false
  for (const secret of secrets) {
    // As text: decoded, several spellings would be the same signature.
    const expected = Buffer.from(digest(secret, content))
    for (const signature of given) {
      if (signature.length === expected.length && timingSafeEqual(signature, expected)) matches = true
    }
  }
  return matches
}

function digest(secret: Buffer | KeyObject, { id, timestamp, body }: SignedContent): string {
  return createHmac('sha256', secret).update(`${id}.${timestamp}.`).update(body).digest('base64')
}

function withoutPadding(base64: string): string {
  return base64.replace(/={0,2}$/, '')
}
