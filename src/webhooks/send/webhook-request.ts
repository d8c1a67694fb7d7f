import type { KeyObject } from 'node:crypto'
import { toBinary, toStructured } from '../../cloudevents/write.ts'
import type { Format } from '../../domain/endpoint.ts'
import type { StoredEvent } from '../../domain/stored-event.ts'
import { signWith } from '../receive/signature.ts'

/** The `user-agent` of webhooks. */
export const agent = 'Posthorn/1 (webhooks)'

export interface WebhookRequest {
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

export interface RequestParts {
  readonly event: StoredEvent
  /** The same for every attempt, so that the receiver recognizes repeats. */
  readonly deliveryId: string
  readonly attempt: number
  readonly format: Format
  /** The subscriber's own headers; ours replace them. */
  readonly headers: Readonly<Record<string, string>>
  /** The newest first. */
  readonly secrets: readonly (Buffer | KeyObject)[]
  readonly lane: LanePlace | null
  /** The replay that sends the event again; null: none does. */
  readonly replay: string | null
  /** Unix seconds. */
  readonly timestamp: number
  readonly userAgent: string
}

/** Where a delivery stands in its lane, for the receiver to check. */
export interface LanePlace {
  readonly orderingKey: string
  /** When the numbering of the lane began. */
  readonly epoch: number
  /** 1, 2, 3 … without gaps; the same for every attempt. */
  readonly sequence: number
  /** The highest delivered number of the lane; 0: none. The numbers in between were given up. */
  readonly delivered: number
  /** A later delivery went before it. */
  readonly isLate: boolean
}

export function buildRequest(parts: RequestParts): WebhookRequest {
  const { event, deliveryId: id, attempt, secrets, timestamp, lane, replay, userAgent } = parts
  const { headers: contentHeaders, content } = contentOf(parts)
  const body = Buffer.from(content as string)
  // One by one: spreading them costs as much as the signature.
  const headers: Record<string, string> = {}
  for (const name in parts.headers) headers[name] = parts.headers[name] as string
  headers['user-agent'] = userAgent
  for (const name in contentHeaders) headers[name] = contentHeaders[name] as string
  headers['webhook-id'] = id
  headers['webhook-timestamp'] = String(timestamp)
  headers['webhook-signature'] = signWith(secrets, { id, timestamp, body })
  headers['posthorn-event-id'] = String(event.id)
  headers['posthorn-attempt'] = String(attempt)
  if (event.traceparent !== null) headers.traceparent = event.traceparent
  if (lane !== null) Object.assign(headers, laneHeaders(lane))
  if (replay !== null) headers['posthorn-replay'] = replay
  return { body, headers }
}

interface Content {
  readonly headers: Record<string, string>
  readonly content: string | Buffer
}

function contentOf({ event, format }: RequestParts): Content {
  switch (format) {
    case 'standard': {
      const timestamp = (event.timestamp ?? event.createdAt).toISOString()
      // The payload is sent as it was published, byte for byte.
      const content = `{"type":${JSON.stringify(event.type)},"timestamp":"${timestamp}","data":${event.payloadText}}`
      return { headers: json, content }
    }
    case 'raw':
      return { headers: json, content: event.payloadText }
    case 'cloudevents':
      return {
        headers: { 'content-type': 'application/cloudevents+json; charset=utf-8' },
        content: toStructured(event),
      }
    case 'cloudevents-binary': {
      const { headers, body } = toBinary(event)
      return { headers, content: body }
    }
  }
}

const json = { 'content-type': 'application/json' }

function laneHeaders({ orderingKey, epoch, sequence, delivered, isLate }: LanePlace): Record<string, string> {
  return {
    'posthorn-ordering-key': encodeURIComponent(orderingKey),
    'posthorn-lane-epoch': String(epoch),
    'posthorn-sequence': String(sequence),
    'posthorn-previous-sequence': String(delivered),
    ...(sequence > delivered + 1 && !isLate && { 'posthorn-skipped': rangeOf(delivered + 1, sequence - 1) }),
    ...(isLate && { 'posthorn-out-of-order': 'true' }),
  }
}

/** These deliveries were given up and do not come any more. */
function rangeOf(first: number, last: number): string {
  return first === last ? String(first) : `${first}-${last}`
}
