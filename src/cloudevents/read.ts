import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { badEvent } from '../domain/bad-value.ts'
import { type EventAttributes, type EventFields, keyCharsMax, parseEvent } from '../domain/event.ts'
import { decodeUtf8, type Member, parseMember, readElements, readMembers } from '../domain/json-members.ts'
import { PosthornError } from '../errors.ts'
import { type Attributes, type AttributeValue, addAttribute, toRecord } from './attributes.ts'
import {
  base64Mark,
  batchType,
  isBase64,
  isJsonType,
  isUtf8TextType,
  mediaTypeOf,
  noDataMark,
  structuredType,
} from './content.ts'
import { decodeHeaderValue } from './header.ts'

export interface RequestParts {
  readonly headers: IncomingHttpHeaders
  /** The Content-Type header as it came, empty if there is none. */
  readonly contentType: string
  readonly body: Buffer
}

/** A CloudEvent in the form that parseEvent takes. parseEvent checks the payload. */
export type CloudEventIn = EventFields & {
  readonly payloadText: string
  /** Attributes that have no field here, stored so that the same CloudEvent can go out again. */
  readonly attributes: EventAttributes
}

/** Recognised by the content type, or by any required header, so that an error can name a missing one. */
export function isCloudEvent(headers: IncomingHttpHeaders): 'structured' | 'binary' | 'batch' | null {
  const mediaType = mediaTypeOf(headers['content-type'] ?? '')
  if (mediaType === structuredType) return 'structured'
  if (mediaType === batchType) return 'batch'
  return requiredHeaders.some((name) => headers[name] !== undefined) ? 'binary' : null
}

const requiredHeaders = ['ce-specversion', 'ce-id', 'ce-source', 'ce-type']

export function readCloudEvent(parts: RequestParts): CloudEventIn {
  if (mediaTypeOf(parts.contentType) !== structuredType) return readBinary(parts)
  return readStructured(decodeUtf8(parts.body), 'the event')
}

/** Reading stops at one event more than `eventsMax`. */
export function readCloudEventBatch(
  { body }: RequestParts,
  eventsMax = Number.POSITIVE_INFINITY,
): CloudEventIn[] {
  return readElements(decodeUtf8(body), 'the batch', eventsMax).map((text, index) => {
    const path = `[${index}]`
    return renamingFields(
      (field) => `${path}.${field}`,
      () => readStructured(text, path),
    )
  })
}

interface Data {
  readonly text: string
  readonly mark?: typeof base64Mark | typeof noDataMark
}

const noData: Data = { text: 'null', mark: noDataMark }

/** In the JSON format an attribute that is null counts as not given. */
function readStructured(text: string, what: string): CloudEventIn {
  const attributes: Attributes = new Map()
  let data: Member | undefined
  let dataBase64: Member | undefined
  for (const member of readMembers(text, what)) {
    if (member.key === 'data') data = member
    else if (member.key === 'data_base64') dataBase64 = member
    else if (member.text !== 'null') addAttribute(attributes, member.key, attributeValue(member))
  }
  return toEvent(attributes, structuredData(data, dataBase64))
}

/** Arrays and objects are refused unparsed, since a megabyte of brackets would take long to parse. */
function attributeValue(member: Member): AttributeValue {
  if (/^[[{]/.test(member.text)) throw badEvent(member.key, 'text, a number, true or false', member.text)
  return parseMember(member) as AttributeValue
}

function readBinary({ headers, contentType, body }: RequestParts): CloudEventIn {
  const attributes: Attributes = new Map()
  for (const [header, value] of Object.entries(headers)) {
    if (!header.startsWith('ce-') || value === undefined) continue
    if (header === 'ce-datacontenttype') throw badEvent(header, 'left out: Content-Type says it', value)
    const text = typeof value === 'string' ? decodeHeaderValue(value) : null
    if (text === null) throw badEvent(header, 'one value, percent-encoded as UTF-8', value)
    addAttribute(attributes, header.slice(3), text)
  }
  if (contentType !== '') addAttribute(attributes, 'datacontenttype', contentType)
  return toEvent(attributes, binaryData(contentType, body))
}

/** Base64 stays the text that it was, with escapes. A null member counts as not given, unless `data` is the only one. */
function structuredData(data: Member | undefined, dataBase64: Member | undefined): Data {
  const base64 = dataBase64 === undefined ? null : parseMember(dataBase64)
  if (dataBase64 === undefined || base64 === null) return data ?? noData
  if (data !== undefined && data.text !== 'null') {
    throw badEvent('data_base64', 'left out when there is data', base64)
  }
  if (typeof base64 !== 'string' || !isBase64(base64)) throw badEvent('data_base64', 'base64', base64)
  return { text: dataBase64.text, mark: base64Mark }
}

/** HTTP cannot tell an event without data from an event with empty data. */
function binaryData(contentType: string, body: Buffer): Data {
  if (body.length === 0) return noData
  if (contentType === '' || isJsonType(contentType)) return { text: decodeUtf8(body) }
  if (isUtf8TextType(contentType) && isUtf8(body)) return { text: JSON.stringify(body.toString()) }
  return { text: `"${body.toString('base64')}"`, mark: base64Mark }
}

function toEvent(given: Attributes, data: Data): CloudEventIn {
  const text = (name: string) => (given.get(name) as string | undefined) ?? null
  if (text('specversion') !== '1.0') throw badEvent('specversion', '1.0', given.get('specversion'))
  const fields: EventFields = {
    type: required(given, 'type'),
    idempotencyKey: idempotencyKeyOf(required(given, 'source'), required(given, 'id')),
    timestamp: isoTime(text('time')),
    orderingKey: text('partitionkey'),
    expiresAt: isoTime(text('expirytime')),
    traceparent: text('traceparent'),
    correlationId: keyIn(given, 'correlationid'),
    causationId: keyIn(given, 'causationid'),
  }
  const kept = [...given].filter(([name, value]) => !hasField.has(name) || isFineTime(name, value))
  const attributes = toRecord(data.mark === undefined ? kept : [...kept, [data.mark, true]])
  checkFields({ ...fields, attributes })
  return { ...fields, attributes, payloadText: data.text }
}

const hasField = new Set(['specversion', 'type', 'time', 'partitionkey', 'expirytime', 'traceparent'])

/** Posthorn stores times in milliseconds; the text of a more precise time is stored as an attribute too. */
function isFineTime(name: string, value: unknown): boolean {
  return (name === 'time' || name === 'expirytime') && /\.\d{3}\d*[1-9]/.test(String(value))
}

function required(given: Attributes, name: string): string {
  const value = given.get(name)
  if (value === undefined) throw badEvent(name, 'given', value)
  return String(value)
}

/** RFC 3339 also allows a small t and z. */
function isoTime(time: string | null): string | null {
  return time !== null && /^[\dt:.+-]+z?$/i.test(time) ? time.toUpperCase() : time
}

/** An attribute that is too long for a key is stored like any other attribute. */
function keyIn(given: Attributes, name: string): string | null {
  const value = given.get(name)
  return typeof value === 'string' && value.length >= 1 && value.length <= keyCharsMax ? value : null
}

function idempotencyKeyOf(source: string, id: string): string {
  const key = JSON.stringify([source, id])
  return key.length <= keyCharsMax ? key : `sha256:${createHash('sha256').update(key).digest('hex')}`
}

/** Checks the fields here too, so that an error has the CloudEvents name of the field. */
function checkFields(fields: EventFields): void {
  renamingFields(
    (field) => cloudEventsNames.get(field) ?? field,
    () => parseEvent({ ...fields, payload: null }),
  )
}

const cloudEventsNames = new Map([
  ['timestamp', 'time'],
  ['orderingKey', 'partitionkey'],
  ['expiresAt', 'expirytime'],
])

function renamingFields<T>(rename: (field: string) => string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof PosthornError) || error.code !== 'BAD_EVENT') throw error
    const { details } = error
    throw new PosthornError(
      'BAD_EVENT',
      { ...details, field: rename(String(details.field)) },
      { cause: error },
    )
  }
}
