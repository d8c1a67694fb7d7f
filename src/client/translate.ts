import { badEvent, badOption } from '../domain/bad-value.ts'
import type { EventAttributes, EventFields, EventInput, EventSource } from '../domain/event.ts'
import { checkEventForm } from '../domain/event-inputs.ts'
import { readElements, readMembers } from '../domain/json-members.ts'
import { leftOut, type NamesOf, unknownName } from '../domain/known-names.ts'
import { meantFields } from '../domain/meant-fields.ts'
import { type CoreFields, type RareFields, type StoredEvent, storedEvent } from '../domain/stored-event.ts'
import { isStorable } from '../domain/text.ts'
import { camelCase, snakeCase } from '../domain/wire-name.ts'
import { PosthornError } from '../errors.ts'
import type { EventDetails, EventPage, LeasedEvent, ListedEvent, RemoteEvent, Standing } from './answers.ts'

/** The one place that knows the names that HTTP uses. */

type Wire = Readonly<Record<string, unknown>>

const eventNames: NamesOf<Omit<EventFields, `idempotency${'Scope' | 'Fingerprint'}`>> = {
  type: true,
  title: true,
  description: true,
  tags: true,
  orderingKey: true,
  concurrencyKey: true,
  version: true,
  source: true,
  timestamp: true,
  correlationId: true,
  causationId: true,
  traceparent: true,
  runAt: true,
  expiresAt: true,
  maxRetries: true,
  idempotencyKey: true,
  requireRoute: true,
  attributes: true,
}

const eventFields = Object.keys(eventNames).map(
  (name) => [name as keyof EventFields, snakeCase(name)] as const,
)
const knownFields = { ...eventNames, payload: true, payloadText: true }

/** The body that publishes an event. The payload text is sent unchanged: parsing and printing could change it. */
export function eventToWire(event: EventInput): string {
  checkEventForm(event)
  const stranger = unknownName(event, knownFields)
  if (stranger !== undefined) {
    const expected = leftOut(stranger, Object.keys(knownFields), 'no event takes it', meantFields)
    throw badEvent(stranger, expected, (event as object as Record<string, unknown>)[stranger])
  }
  let text = `{"payload":${payloadToWire(event)}`
  for (const [field, name] of eventFields) {
    const value = event[field]
    if (value === undefined || value === null) continue
    const json = jsonOf(value)
    if (json === undefined) throw badEvent(field, jsonValue, value)
    text += `,"${name}":${json}`
  }
  return `${text}}`
}

const jsonValue = 'a value that JSON can carry'

/** The JSON of a value. Undefined if JSON leaves it out or makes it null, such as an invalid Date: the server would take it for not given. */
function jsonOf(value: unknown): string | undefined {
  const json = JSON.stringify(value)
  return json === 'null' ? undefined : json
}

/** Checked because it becomes part of a larger text: a text that is not JSON could add other fields. */
function payloadToWire({ payload, payloadText }: EventInput): string {
  if (payloadText === undefined) {
    const text = payload === undefined ? undefined : JSON.stringify(payload)
    if (text !== undefined) return text
    throw badEvent('payload', 'a JSON value (null is one)', payload)
  }
  if (payload !== undefined) throw badEvent('payload', 'left out when there is a payloadText', payload)
  if (typeof payloadText !== 'string') throw badEvent('payloadText', 'JSON text', payloadText)
  try {
    JSON.parse(payloadText)
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'it could not be read'
    throw new PosthornError('BAD_PAYLOAD', { reason }, { cause: error })
  }
  if (isStorable(payloadText)) return payloadText
  throw new PosthornError('BAD_PAYLOAD', { reason: 'it holds a character that UTF-8 text cannot' })
}

/** `{ eventTypes }` as `{"event_types"}`: one level deep, without undefined members, times as ISO 8601. */
export function toWire(fields: object): string {
  return JSON.stringify(Object.fromEntries(wireEntries(fields)))
}

/** The same as the query of a URL; lists as `a,b`. */
export function toQuery(fields: object): URLSearchParams {
  const query = new URLSearchParams()
  for (const [name, value] of wireEntries(fields)) {
    query.set(name, value instanceof Date ? value.toISOString() : String(value))
  }
  return query
}

function wireEntries(fields: object): [string, unknown][] {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => [snakeCase(key), checkValue(key, value)])
}

function checkValue(option: string, value: unknown): unknown {
  if (value === null || jsonOf(value) !== undefined) return value
  throw badOption(option, jsonValue, value)
}

/** An answer's object, and those in its lists, with names and times as TypeScript has them. */
export function fromWire<T>(text: string): T {
  return translate(JSON.parse(text)) as T
}

/** The same for an answer that must have this member. A proxy may have answered instead of the server. */
export function answerWith<T>(member: keyof T & string): (text: string) => T {
  return (text) => {
    const answer = fromWire<T | null>(text)
    if (answer?.[member] === undefined) throw new Error(`It has no ${member}`)
    return answer
  }
}

/** The list that an answer must have under this name. */
export function listOf<Item>(name: string): (text: string) => Item[] {
  return (text) => pageOf<Item>(name)(text).items
}

/** The same for a list in pages, with the cursor of the next page. */
export function pageOf<Item>(name: string): (text: string) => { items: Item[]; nextCursor: string | null } {
  return (text) => {
    const page = fromWire<Record<string, unknown> | null>(text)
    const items = page?.[name]
    if (!Array.isArray(items)) throw new Error(`It has no list of ${name}`)
    return { items, nextCursor: typeof page?.nextCursor === 'string' ? page.nextCursor : null }
  }
}

function translate(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(translate)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [camelCase(name), translateMember(name, member)]),
  )
}

/** Names inside a nested object, such as headers, come from the user and are not changed. */
function translateMember(name: string, value: unknown): unknown {
  if (Array.isArray(value)) return value.map(translate)
  if (typeof value !== 'string') return value
  if (timeName.test(name)) return new Date(value)
  return name === 'tags' ? value.split(',') : value
}

const timeName = /_(at|until)$/

export function readEvent(text: string): RemoteEvent {
  return eventFromMembers(readMembers(text, 'an event')).event
}

export function readLeasedEvents(text: string): LeasedEvent[] {
  const elements = text.trimStart().startsWith('[') ? readElements(text, 'a list of events') : [text]
  return elements.map((element) => {
    const { event, fields } = eventFromMembers(readMembers(element, 'an event'))
    return extend(event, {
      leaseToken: fields.lease_token as string,
      leaseExpiresAt: toDate(fields.lease_expires_at) as Date,
      attempt: fields.attempt as number,
      subscription: fields.subscription as string,
    })
  })
}

export function readEventDetails(text: string): EventDetails {
  const { event, fields } = eventFromMembers(readMembers(text, 'an event'))
  const { deliveries = [], logs = [] } = fields
  return extend(event, {
    deliveries: translate(deliveries) as EventDetails['deliveries'],
    logs: translate(logs) as EventDetails['logs'],
  })
}

export function readEventPage(text: string): EventPage {
  const page = JSON.parse(text) as Wire
  return {
    events: (page.events as Wire[]).map(listedEvent),
    total: (page.total ?? null) as number | null,
    totalIsEstimate: page.total_is_estimate === true,
    nextCursor: (page.next_cursor ?? null) as string | null,
    searchedTo: page.searched_to === undefined ? null : new Date(page.searched_to as string),
    searched: (page.searched ?? null) as EventPage['searched'],
  }
}

function listedEvent(fields: Wire): ListedEvent {
  const { payloadText: _, createdAtMs, ...core } = coreFields(fields, '')
  return { ...core, createdAt: new Date(createdAtMs), ...rareFields(fields), ...standing(fields) }
}

/** The events of `{"events": […]}`. */
export function readPublished(text: string): RemoteEvent[] {
  const events = readMembers(text, 'an answer').find(({ key }) => key === 'events')
  return readElements(events?.text ?? '', 'a list of events').map(readEvent)
}

interface TakenApart {
  readonly event: RemoteEvent
  /** All fields but the payload, under the names that HTTP uses. */
  readonly fields: Wire
}

function eventFromMembers(members: readonly { key: string; text: string }[]): TakenApart {
  const fields: Record<string, unknown> = {}
  let payloadText = 'null'
  for (const { key, text } of members) {
    if (key === 'payload') payloadText = text
    else fields[key] = JSON.parse(text)
  }
  const stored = storedEvent(coreFields(fields, payloadText), rareFields(fields))
  return { event: extend(stored, standing(fields)), fields }
}

/** An event with further fields, also in its JSON. */
export function extend<Event extends StoredEvent, Fields extends object>(
  event: Event,
  fields: Fields,
): Event & Fields {
  const { toJSON } = event as { toJSON?: () => object }
  Object.defineProperty(event, 'toJSON', {
    value: () => ({ ...toJSON?.call(event), ...fields }),
    configurable: true,
  })
  return Object.assign(event, fields)
}

function coreFields(fields: Wire, payloadText: string): CoreFields {
  if (!Number.isSafeInteger(fields.id)) throw new Error('It has no id')
  return {
    id: fields.id as number,
    type: fields.type as string | null,
    payloadText,
    orderingKey: fields.ordering_key as string | null,
    createdAtMs: Date.parse(fields.created_at as string),
  }
}

function standing(fields: Wire): Standing {
  return {
    status: fields.status as Standing['status'],
    retryCount: fields.retry_count as number,
    nextRetryAt: toDate(fields.next_retry_at),
    updatedAt: toDate(fields.updated_at) as Date,
  }
}

export function rareFields(fields: Wire): RareFields {
  const text = (name: string) => (fields[name] ?? null) as string | null
  return {
    title: text('title'),
    description: text('description'),
    tags: text('tags')?.split(',') ?? null,
    concurrencyKey: text('concurrency_key'),
    version: text('version'),
    source: (fields.source ?? null) as EventSource | null,
    timestamp: toDate(fields.timestamp),
    correlationId: text('correlation_id'),
    causationId: text('causation_id'),
    traceparent: text('traceparent'),
    runAt: toDate(fields.run_at),
    expiresAt: toDate(fields.expires_at),
    maxRetries: (fields.max_retries ?? null) as number | null,
    attributes: (fields.attributes ?? null) as EventAttributes | null,
  }
}

function toDate(value: unknown): Date | null {
  return typeof value === 'string' ? new Date(value) : null
}
