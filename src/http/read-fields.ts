import { badEvent } from '../domain/bad-value.ts'
import { type EventAttributes, type EventInput, type NewEvent, parseEvent } from '../domain/event.ts'
import { type Member, parseMember, readMembers } from '../domain/json-members.ts'
import { leftOut } from '../domain/known-names.ts'
import { meantFields } from '../domain/meant-fields.ts'
import { toDetail, toStorable } from '../domain/text.ts'
import { snakeCase } from '../domain/wire-name.ts'
import { PosthornError } from '../errors.ts'

export interface ReadEvent {
  readonly input: EventInput
  /** The name under which the caller gave each field, for errors. */
  readonly names: Map<string, string>
}

type Fields = Record<string, unknown>

/** Reads an event as JSON. The payload stays the text that it was. */
export function readFields(text: string): ReadEvent {
  const input: Fields = {}
  const names = new Map<string, string>()
  let kept: Readonly<Record<string, string>> = {}
  for (const member of readMembers(text, 'the event')) {
    if (member.key === 'payload') input.payloadText = member.text
    else if (member.key === 'metadata') kept = readMetadata(input, names, member)
    else {
      const name = Object.hasOwn(fieldNames, member.key) ? fieldNames[member.key] : undefined
      if (name === undefined) throw unknownMember('', member, wireNames, meantOnWire)
      const value = parseMember(member)
      if (name === 'source') checkSource(value)
      assign(input, names, { name, field: member.key, value })
    }
  }
  if (input.payloadText === undefined) throw badEvent('payload', 'a JSON value (null is one)', undefined)
  for (const [name, value] of Object.entries(kept)) {
    input.attributes = withAttribute(input.attributes, name, value)
  }
  return { input: input as unknown as EventInput, names }
}

/** The field that each name in a request stands for; several names may stand for one field. */
const fieldNames: Readonly<Record<string, string>> = {
  type: 'type',
  event_type: 'type',
  name: 'type',
  pattern: 'type',
  ordering_key: 'orderingKey',
  group_id: 'orderingKey',
  title: 'title',
  description: 'description',
  tags: 'tags',
  version: 'version',
  source: 'source',
  concurrency_key: 'concurrencyKey',
  timestamp: 'timestamp',
  traceparent: 'traceparent',
  correlation_id: 'correlationId',
  causation_id: 'causationId',
  attributes: 'attributes',
  run_at: 'runAt',
  expires_at: 'expiresAt',
  max_retries: 'maxRetries',
  require_route: 'requireRoute',
  idempotency_key: 'idempotencyKey',
  eventId: 'idempotencyKey',
}

const wireNames = ['payload', 'metadata', ...Object.keys(fieldNames)]
const meantOnWire = Object.fromEntries(
  Object.entries(meantFields).map(([name, meant]) => [name, snakeCase(meant)]),
)

/** The members that `metadata` may have, and the field that each stands for; null: the member has no field. */
const metadataNames: Readonly<Record<string, string | null>> = {
  correlationId: 'correlationId',
  causationId: 'causationId',
  traceId: null,
  retryCount: null,
  lastError: null,
  lastErrorTime: null,
  processingStartTime: null,
}

/** Members of `metadata` that are stored as attributes, so that the queue's document can show them. */
const keptAttributes: Readonly<Record<string, string>> = {
  traceId: 'traceid',
  lastError: 'lasterror',
  lastErrorTime: 'lasterrortime',
}
const keptCharsMax = 4_000

/** Assigns the fields that `metadata` has, and returns the attributes to store. */
function readMetadata(
  input: Fields,
  names: Map<string, string>,
  { text }: Member,
): Readonly<Record<string, string>> {
  const kept: Record<string, string> = {}
  if (text === 'null') return kept
  if (!text.startsWith('{')) throw badEvent('metadata', 'an object', text)
  for (const member of readMembers(text, 'metadata')) {
    const field = `metadata.${member.key}`
    const name = Object.hasOwn(metadataNames, member.key) ? metadataNames[member.key] : undefined
    if (name === undefined) throw unknownMember('metadata.', member, Object.keys(metadataNames))
    const value = parseMember(member)
    if (name !== null) assign(input, names, { name, field, value })
    const attribute = keptAttributes[member.key]
    if (attribute === undefined || value === null) continue
    if (typeof value !== 'string') throw badEvent(field, 'text', value)
    kept[attribute] = toStorable(value, keptCharsMax)
  }
  return kept
}

/** Other members of `source` would be lost, so they are refused. */
function checkSource(value: unknown): void {
  if (value === null) return
  if (typeof value !== 'object' || Array.isArray(value)) {
    throw badEvent('source', 'an object of type, id and name', value)
  }
  const stranger = Object.entries(value).find(([name]) => !['type', 'id', 'name'].includes(name))
  if (stranger !== undefined)
    throw badEvent(`source.${stranger[0]}`, 'left out: no source has it', stranger[1])
}

interface GivenField {
  /** The name of the field in the library. */
  readonly name: string
  /** The name as the caller wrote it. */
  readonly field: string
  readonly value: unknown
}

function assign(input: Fields, names: Map<string, string>, { name, field, value }: GivenField): void {
  if (value == null) return
  const before = input[name]
  if (before != null && before !== value) {
    const expected = `the same as ${names.get(name)}, which is ${String(toDetail(before))}`
    throw badEvent(field, expected, value)
  }
  input[name] = value
  names.set(name, field)
}

/** Adds an attribute unless it is there already. Attributes of a wrong form are left for parseEvent to refuse. */
export function withAttribute(attributes: unknown, name: string, value: string): EventAttributes {
  const isRecord = typeof (attributes ?? {}) === 'object' && !Array.isArray(attributes)
  return (isRecord ? { [name]: value, ...(attributes as object | null) } : attributes) as EventAttributes
}

/** Parses the event; an error names the field as the caller wrote it. */
export function parseNamed(input: EventInput, names: ReadonlyMap<string, string>): NewEvent {
  try {
    return parseEvent(input)
  } catch (error) {
    if (!(error instanceof PosthornError) || typeof error.details.field !== 'string') throw error
    const [name = '', ...rest] = error.details.field.split('.')
    const field = [names.get(name) ?? snakeCase(name), ...rest].join('.')
    const expected = String(error.details.expected).replace('expiresAt', 'expires_at')
    throw new PosthornError(error.code, { ...error.details, field, expected }, { cause: error.cause })
  }
}

function unknownMember(
  prefix: string,
  { key, text }: Member,
  known: readonly string[],
  meant?: Readonly<Record<string, string>>,
): PosthornError {
  return badEvent(prefix + key, leftOut(key, known, 'no event takes it', meant), text)
}
