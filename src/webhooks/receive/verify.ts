import { checkOptions } from '../../domain/known-names.ts'
import { PosthornError } from '../../errors.ts'
import { type HeaderLookup, headerLookup, type WebhookHeaders } from './headers.ts'
import { type LanePlace, readLane, readWhole } from './lane.ts'
import { readSecrets } from './secrets.ts'
import { isSignedBy } from './signature.ts'

export interface VerifyOptions {
  /** How far the sender's clock may be from ours, in seconds, before or behind. Default 300. */
  readonly toleranceSeconds?: number
  /** What time it is, in milliseconds since 1970; for tests. */
  readonly now?: () => number
}

/**
 * What a delivery says of itself. Body, `id` and `timestamp` are signed. The rest are plain headers that a proxy
 * could change: good for order and for logs, not for deciding who may do what. What cannot be read is null.
 */
export interface VerifiedWebhook {
  /** The same however often it is delivered: what was seen before needs no second look. */
  readonly id: string
  /** When this attempt was sent. */
  readonly timestamp: Date
  readonly eventId: number | null
  /** 1 for the first. */
  readonly attempt: number | null
  /** Null: it is not of a lane. */
  readonly lane: LanePlace | null
}

/**
 * Checks that a request was sent by who knows the secret, and lately. `body` is what came, byte for byte: parse it
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
  checkBody(body)
  checkTolerance(toleranceSeconds)
  const keys = readSecrets(secrets)
  const header = headerLookup(headers)
  const id = readId(header)
  const timestamp = readTimestamp(header)
  if (!isSignedBy(keys, required(header, 'webhook-signature'), { id, timestamp, body })) {
    throw refused('no signature matches')
  }
  // After the signature: how far the clocks are apart is said to nobody who does not know the secret.
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

/** Visible ASCII without a dot, which would let the border between id, time and body be moved. */
function readId(header: HeaderLookup): string {
  const id = required(header, 'webhook-id')
  if (/^[!-~]{1,255}$/.test(id) && !id.includes('.')) return id
  throw refused('webhook-id is not an id')
}

/** As a sender writes it and not otherwise, so that the number stands for what was signed. */
function readTimestamp(header: HeaderLookup): number {
  const text = required(header, 'webhook-timestamp')
  if (/^(0|[1-9]\d{0,11})$/.test(text)) return Number(text)
  throw refused('webhook-timestamp is not in Unix seconds')
}

function required(header: HeaderLookup, name: string): string {
  const value = header(name)
  if (value === undefined) throw refused(`${name} is missing, or there more than once`)
  return value
}

function describeAge(ageSeconds: number, toleranceSeconds: number): string {
  const age = ageSeconds < 0 ? `${-ageSeconds} s from now` : `${ageSeconds} s ago`
  return `it was sent ${age} and ${toleranceSeconds} s are allowed`
}

function checkBody(body: unknown): void {
  if (typeof body === 'string' || body instanceof Uint8Array) return
  throw new PosthornError('BAD_OPTION', {
    option: 'body',
    expected: 'the bytes or the text as they came',
    value: typeof body,
  })
}

function checkTolerance(toleranceSeconds: number): void {
  if (toleranceSeconds >= 0 && Number.isFinite(toleranceSeconds)) return
  throw new PosthornError('BAD_OPTION', {
    option: 'toleranceSeconds',
    expected: '0 or more',
    value: String(toleranceSeconds),
  })
}

function refused(reason: string): PosthornError {
  return new PosthornError('BAD_SIGNATURE', { reason })
}
