import type { EventAttributes } from '../domain/event.ts'
import type { StoredEventFields } from '../domain/stored-event.ts'
import { attributeName, base64Mark, contentTypePattern, isBase64, isJsonType, noDataMark } from './content.ts'
import { encodeHeaderValue } from './header.ts'

/** A CloudEvent as JSON text; the payload is inserted unchanged. */
export function toStructured(event: StoredEventFields, extra: EventAttributes = {}): string {
  const members = [...attributesOf(event, extra)].map(([name, value]) => `"${name}":${JSON.stringify(value)}`)
  const form = formOf(event)
  if (form !== 'none') members.push(`"${form === 'base64' ? 'data_base64' : 'data'}":${event.payloadText}`)
  return `{${members.join(',')}}`
}

export function toBatch(texts: readonly string[]): string {
  return `[${texts.join(',')}]`
}

export interface BinaryCloudEvent {
  readonly headers: Record<string, string>
  readonly body: string | Buffer
}

export function toBinary(event: StoredEventFields, extra: EventAttributes = {}): BinaryCloudEvent {
  const headers: Record<string, string> = {}
  const { datacontenttype, ...attributes } = Object.fromEntries(attributesOf(event, extra))
  for (const [name, value] of Object.entries(attributes)) {
    headers[`ce-${name}`] = encodeHeaderValue(String(value))
  }
  const form = formOf(event)
  const contentType = datacontenttype ?? (form === 'json' ? 'application/json' : null)
  if (contentType !== null) headers['content-type'] = String(contentType)
  return { headers, body: bodyOf(form, event.payloadText) }
}

/** An event that came as a CloudEvent keeps its own attributes; those of Posthorn follow. */
function attributesOf(
  event: StoredEventFields,
  extra: EventAttributes,
): Map<string, string | number | boolean> {
  const kept = new Map(Object.entries(event.attributes ?? {}))
  const [id, source] = [kept.get('id'), kept.get('source')]
  const isOwn = typeof id === 'string' && typeof source === 'string'
  const all = new Map<string, string | number | boolean | null>([
    ['specversion', '1.0'],
    ['id', isOwn ? id : String(event.id)],
    ['source', isOwn ? source : '/posthorn'],
    ['type', event.type ?? 'posthorn.work'],
    ['subject', kept.get('subject') ?? (isOwn ? null : event.title)],
    ['time', timeText(event.timestamp ?? event.createdAt, kept.get('time'))],
    ['datacontenttype', contentTypeIn(event)],
    ['partitionkey', event.orderingKey],
    ['expirytime', event.expiresAt === null ? null : timeText(event.expiresAt, kept.get('expirytime'))],
    ['traceparent', event.traceparent],
    ['correlationid', event.correlationId ?? kept.get('correlationid') ?? null],
    ['causationid', event.causationId ?? kept.get('causationid') ?? null],
    ['posthornid', String(event.id)],
  ])
  for (const [name, value] of [...Object.entries(extra), ...kept]) {
    if (!all.has(name) && attributeName.test(name) && !notAttributes.has(name)) all.set(name, value)
  }
  return new Map([...all].filter((entry): entry is [string, string | number | boolean] => entry[1] !== null))
}

const notAttributes = new Set(['data', base64Mark, noDataMark])

/** The original text of a time may be more precise than the milliseconds that Posthorn stores. */
function timeText(time: Date, kept: unknown): string {
  if (typeof kept !== 'string' || !rfc3339.test(kept)) return time.toISOString()
  return Date.parse(kept.toUpperCase()) === time.getTime() ? kept : time.toISOString()
}

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i

function contentTypeIn({ attributes }: StoredEventFields): string | null {
  const contentType = attributes?.datacontenttype
  return typeof contentType === 'string' && contentTypePattern.test(contentType) ? contentType : null
}

type Form = 'none' | 'base64' | 'text' | 'json'

/** A mark counts only if the payload confirms it, since publishers can set attributes by hand. */
function formOf(event: StoredEventFields): Form {
  const { attributes, payloadText } = event
  if (attributes?.[noDataMark] === true && payloadText === 'null') return 'none'
  const contentType = contentTypeIn(event)
  const isMarked = attributes?.[base64Mark] === true
  if (!isMarked && (contentType === null || isJsonType(contentType))) return 'json'
  const payload: unknown = JSON.parse(payloadText)
  if (typeof payload !== 'string') return 'json'
  if (isMarked && isBase64(payload)) return 'base64'
  return contentType === null || isJsonType(contentType) ? 'json' : 'text'
}

function bodyOf(form: Form, payloadText: string): string | Buffer {
  if (form === 'none') return ''
  if (form === 'json') return payloadText
  const text = JSON.parse(payloadText) as string
  return form === 'base64' ? Buffer.from(text, 'base64') : text
}
