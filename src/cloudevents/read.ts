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

/** A CloudEvent as parseEvent takes it. Its payload has not been checked yet: parseEvent does that. */
export type CloudEventIn = EventFields & {
  readonly payloadText: string
  /** What Posthorn has no field for, so that the same CloudEvent can go out again. */
  readonly attributes: EventAttributes
}

/** By the content type, else by any header that every CloudEvent has, so that a missing one is named. */
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

/** Of more than `eventsMax` only one more is read. */
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

/** In the JSON format an attribute that is null is one that was not given. */
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

/** Only what can be an attribute is parsed: a megabyte of brackets would take a while. */
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

/** Base64 is kept as the text it was, escapes included. A member that is null was not given, unless it is `data` alone. */
function structuredData(data: Member | undefined, dataBase64: Member | undefined): Data {
  const base64 = dataBase64 === undefined ? null : parseMember(dataBase64)
  if (dataBase64 === undefined || base64 === null) return data ?? noData
  if (data !== undefined && data.text !== 'null') {
    throw badEvent('data_base64', 'left out when there is data', base64)
  }
  if (typeof base64 !== 'string' || !isBase64(base64)) throw badEvent('data_base64', 'base64', base64)
  return { text: dataBase64.text, mark: base64Mark }
}

/** HTTP cannot tell no data from data of no bytes. */
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

/** Posthorn's times hold milliseconds: the text of one that says more is kept as well. */
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

/** One that is no key for Posthorn is still an extension like any other. */
function keyIn(given: Attributes, name: string): string | null {
  const value = given.get(name)
  return typeof value === 'string' && value.length >= 1 && value.length <= keyCharsMax ? value : null
}

function idempotencyKeyOf(source: string, id: string): string {
  const key = JSON.stringify([source, id])
  return key.length <= keyCharsMax ? key : `sha256:${createHash('sha256').update(key).digest('hex')}`
}

/** Here and not only when published, so that an error has the CloudEvents name of what is wrong. */
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
