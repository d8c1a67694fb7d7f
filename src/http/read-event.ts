import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { isCloudEvent, readCloudEvent, readCloudEventBatch } from '../cloudevents/read.ts'
import { badEvent } from '../domain/bad-value.ts'
import {
  type EventFields,
  type EventInput,
  type NewEvent,
  parseEvent,
  w3cTraceparent,
} from '../domain/event.ts'
import { atPlace } from '../domain/event-inputs.ts'
import { decodeUtf8, readElements, readMembers } from '../domain/json-members.ts'
import { unsupported } from './read-bytes.ts'
import { parseNamed, type ReadEvent, readFields, withAttribute } from './read-fields.ts'

/** A request to publish. */
export interface PublishRequest {
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  /** The owner of the idempotency keys: the id of the caller's API key. */
  readonly scope: string
}

export const batchEventsMax = 1_000

/** Reads one event: JSON or a CloudEvent. The payload is cut out of the body unchanged. */
export function readEvent(request: PublishRequest): NewEvent {
  const { headers, body, scope } = request
  const form = isCloudEvent(headers)
  if (form === 'batch')
    throw unsupported(
      'Content-Type',
      'application/json or application/cloudevents+json',
      headers['content-type'],
    )
  const read = form === null ? readOwn(request) : readForeign(request)
  const input = { ...read.input, ...traceOf(headers, read.input) } as EventInput
  const header = keyHeaderOf(headers)
  const key = header?.value ?? input.idempotencyKey
  if (key == null) return parseNamed(input, read.names)
  if (header !== undefined) read.names.set('idempotencyKey', header.name)
  const fingerprint = fingerprintOf([form === 'binary' ? attributeHeaders(headers) : '', body])
  const keyed = { idempotencyKey: key, idempotencyScope: scope, idempotencyFingerprint: fingerprint }
  return parseNamed({ ...input, ...keyed }, read.names)
}

/** Reads up to 1,000 events, from an array or from the member `events` of an object. */
export function readEvents(request: PublishRequest): NewEvent[] {
  const { headers, body, scope } = request
  if (isCloudEvent(headers) === 'batch') {
    const parts = { headers, contentType: headers['content-type'] ?? '', body }
    const inputs = readCloudEventBatch(parts, batchEventsMax)
    checkCount(inputs.length)
    return inputs.map((input, place) =>
      atPlace(`[${place}]`, () => parseEvent({ ...input, idempotencyScope: scope } as EventInput)),
    )
  }
  checkJson(headers)
  const texts = readElements(eventsOf(decodeUtf8(body)), 'events', batchEventsMax)
  checkCount(texts.length)
  return texts.map((text, place) =>
    atPlace(`events[${place}]`, () => {
      const { input, names } = readFields(text)
      if (input.idempotencyKey == null) {
        checkNoKeyHeader(headers)
        return parseNamed(input, names)
      }
      const fingerprint = { idempotencyScope: scope, idempotencyFingerprint: fingerprintOf([text]) }
      return parseNamed({ ...input, ...fingerprint }, names)
    }),
  )
}

function readOwn({ headers, body }: PublishRequest): ReadEvent {
  checkJson(headers)
  const read = readFields(decodeUtf8(body))
  const { idempotencyKey: key } = read.input
  const header = keyHeaderOf(headers)
  if (key == null || header === undefined || key === header.value) return read
  const name = read.names.get('idempotencyKey') ?? 'idempotency_key'
  throw badEvent(name, `${header.value}, as ${header.name} says`, key)
}

/** The source and id of a CloudEvent are its idempotency key; under another key the same event would be stored twice. */
function readForeign({ headers, body }: PublishRequest): ReadEvent {
  const input = readCloudEvent({ headers, contentType: headers['content-type'] ?? '', body })
  const header = keyHeaderOf(headers)
  if (header !== undefined && header.value !== input.idempotencyKey) {
    const expected = `left out, or ${input.idempotencyKey}: the source and id of a CloudEvent are its key`
    throw badEvent(header.name, expected, header.value)
  }
  return { input, names: new Map() }
}

function eventsOf(text: string): string {
  if (/^[ \t\r\n]*\[/.test(text)) return text
  const members = readMembers(text, 'the body')
  const stranger = members.find(({ key }) => key !== 'events')
  if (stranger !== undefined) throw badEvent(stranger.key, 'left out', stranger.text)
  const [events] = members
  if (!events?.text.startsWith('[')) throw badEvent('events', 'an array of events', events?.text)
  return events.text
}

function checkCount(count: number): void {
  if (count >= 1 && count <= batchEventsMax) return
  throw badEvent('events', `1 to ${batchEventsMax} events`, count === 0 ? 0 : `more than ${batchEventsMax}`)
}

interface KeyHeader {
  readonly name: string
  readonly value: string
}

/** The header has two names; both may be given if they agree. */
function keyHeaderOf(headers: IncomingHttpHeaders): KeyHeader | undefined {
  const [older, newer] = [headers['x-idempotency-key'], headers['idempotency-key']]
  if (older !== undefined && newer !== undefined && older !== newer) {
    throw badEvent('Idempotency-Key', `${String(older)}, as X-Idempotency-Key says`, newer)
  }
  if (newer !== undefined) return { name: 'Idempotency-Key', value: String(newer) }
  return older === undefined ? undefined : { name: 'X-Idempotency-Key', value: String(older) }
}

/** A header sent with a batch would make its sender believe that the batch can be repeated safely. */
function checkNoKeyHeader(headers: IncomingHttpHeaders): void {
  const header = keyHeaderOf(headers)
  if (header === undefined) return
  throw badEvent(
    'idempotency_key',
    `given: ${header.name} does not count for the events of a batch`,
    undefined,
  )
}

/** The event continues the trace of the request, unless the event names its own. */
function traceOf(headers: IncomingHttpHeaders, input: EventInput): EventFields {
  const { traceparent, tracestate } = headers
  if (input.traceparent != null || typeof traceparent !== 'string' || !w3cTraceparent.test(traceparent))
    return {}
  if (typeof tracestate !== 'string' || tracestate === '' || tracestate.length > 512) return { traceparent }
  return { traceparent, attributes: withAttribute(input.attributes, 'tracestate', tracestate) }
}

/** An idempotency key stands for the same bytes. */
function fingerprintOf(parts: readonly (string | Buffer)[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest('hex')
}

function attributeHeaders(headers: IncomingHttpHeaders): string {
  const ours = Object.entries(headers).filter(([name]) => name.startsWith('ce-') || name === 'content-type')
  return JSON.stringify(ours.sort(([a], [b]) => (a < b ? -1 : 1)))
}

function checkJson(headers: IncomingHttpHeaders): void {
  const type = headers['content-type']
  if (type === undefined || jsonType.test(type)) return
  throw unsupported('Content-Type', 'application/json', type)
}

/** The default of curl is accepted: a sender that forgets the header means JSON. */
const jsonType = /^(application\/([\w.-]+\+)?json|application\/x-www-form-urlencoded)\s*(;|$)/i
