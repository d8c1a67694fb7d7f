import { badOption } from '../../domain/bad-value.ts'
import { checkOptions } from '../../domain/known-names.ts'
import { PosthornError } from '../../errors.ts'
import { type HeaderLookup, headerLookup, type WebhookHeaders } from './headers.ts'
import { type LanePlace, readLane, readWhole } from './lane.ts'
import { isSignedBy, readSecrets } from './signature.ts'

export interface VerifyOptions {
  /** How far the sender's clock may be ahead or behind, in seconds. Default 300. */
  readonly toleranceSeconds?: number
  /** The current time in milliseconds since 1970, for tests. */
  readonly now?: () => number
}

/**
 * What the headers of a delivery say. Body, `id` and `timestamp` are signed. The rest are plain headers that a proxy could
 * change: use them for order and for logs, not to decide who may do what. A header that cannot be read is null.
 */
export interface VerifiedWebhook {
  /** The same for every attempt, so that a receiver recognizes repeats. */
  readonly id: string
  /** When this attempt was sent. */
  readonly timestamp: Date
  readonly eventId: number | null
  /** 1 for the first attempt. */
  readonly attempt: number | null
  /** Null: the delivery has no ordering key. */
  readonly lane: LanePlace | null
}

/**
 * Checks that the sender of a request knows the secret and sent it recently. `body` must be the bytes as they came: parse them
 * afterwards. While secrets are rotated, give all that are in use. Throws BAD_SIGNATURE.
 */
export function verify(
  body: Uint8Array | string,
  headers: WebhookHeaders,
  secrets: string | readonly string[],
  options: VerifyOptions = {},
): VerifiedWebhook {
  checkOptions(options, { toleranceSeconds: true, now: true }, 'verify')
  const { toleranceSeconds = 300, now = Date.now } = options
  const isBody = typeof body === 'string' || (body as unknown) instanceof Uint8Array
  if (!isBody) throw badOption('body', 'the bytes or the text as they came', typeof body)
  const isTolerance = toleranceSeconds >= 0 && Number.isFinite(toleranceSeconds)
  if (!isTolerance) throw badOption('toleranceSeconds', '0 or more', String(toleranceSeconds))
  const keys = readSecrets(secrets)
  const header = headerLookup(headers)
  const id = readId(header)
  const timestamp = readTimestamp(header)
  if (!isSignedBy(keys, required(header, 'webhook-signature'), { id, timestamp, body })) {
    throw refused('no signature matches')
  }
  // Checked after the signature: only a sender that knows the secret learns how far the clocks are apart.
  const ageSeconds = Math.floor(now() / 1000) - timestamp
  if (!(Math.abs(ageSeconds) <= toleranceSeconds)) throw refused(describeAge(ageSeconds, toleranceSeconds))
  return {
    id,
    timestamp: new Date(timestamp * 1000),
    eventId: readWhole(header('posthorn-event-id')),
    attempt: readWhole(header('posthorn-attempt')),
    lane: readLane(header),
  }
}

/** Visible ASCII without a dot: a dot could move the border between id, time and body. */
function readId(header: HeaderLookup): string {
  const id = required(header, 'webhook-id')
  if (/^[!-~]{1,255}$/.test(id) && !id.includes('.')) return id
  throw refused('webhook-id is not an id')
}

/** Only the spelling that a sender writes, since the number is used to rebuild the signed text. */
function readTimestamp(header: HeaderLookup): number {
  const text = required(header, 'webhook-timestamp')
  if (/^(0|[1-9]\d{0,11})$/.test(text)) return Number(text)
  throw refused('webhook-timestamp is not in Unix seconds')
}

function required(header: HeaderLookup, name: string): string {
  const value = header(name)
  if (value === undefined) throw refused(`${name} is missing or occurs more than once`)
  return value
}

function describeAge(ageSeconds: number, toleranceSeconds: number): string {
  const age = ageSeconds < 0 ? `${-ageSeconds} s from now` : `${ageSeconds} s ago`
  return `it was sent ${age} and ${toleranceSeconds} s are allowed`
}

function refused(reason: string): PosthornError {
  return new PosthornError('BAD_SIGNATURE', { reason })
}
