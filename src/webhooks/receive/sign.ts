import { readSecrets } from './secrets.ts'
import { signWith } from './signature.ts'

export interface SignOptions {
  readonly id: string
  /** One, or several while they are rotated. */
  readonly secrets: string | readonly string[]
  /** When it is sent, in milliseconds since 1970. Default: now. */
  readonly now?: () => number
}

/** The headers a sender adds. With them a receiver can be tested without a hub. */
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
