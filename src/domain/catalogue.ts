import type { StandardSchemaV1 } from '@standard-schema/spec'
import { PosthornError } from '../errors.ts'
import { badEvent, badOption } from './bad-value.ts'
import { type EventFields, type EventInput, typePattern } from './event.ts'
import { checkOptions } from './known-names.ts'
import type { StoredEvent } from './stored-event.ts'

/** One type of event: the schema of its payload, and the ordering key that follows from the payload. */
export interface EventDefinition<Input = unknown, Output = Input> {
  readonly schema: StandardSchemaV1<Input, Output> | undefined
  /** A method, not a property, so that definitions with different payloads fit into one catalogue. */
  orderingKey(payload: Output): string | null
}

export interface EventOptions<Payload> {
  /** The ordering key of events that are published without one. */
  readonly orderingKey?: (payload: Payload) => string | null | undefined
}

/**
 * With a schema (zod, valibot, ArkType …) payloads are validated when they are published, and the output of the schema is stored
 * as JSON. Without a schema, `event<Payload>()` only gives the payload a type.
 */
export function event<Schema extends StandardSchemaV1>(
  schema: Schema,
  options?: EventOptions<StandardSchemaV1.InferOutput<Schema>>,
): EventDefinition<StandardSchemaV1.InferInput<Schema>, StandardSchemaV1.InferOutput<Schema>>
export function event<Payload>(options?: EventOptions<Payload>): EventDefinition<Payload>
export function event(
  first: StandardSchemaV1 | EventOptions<unknown> = {},
  second: EventOptions<unknown> = {},
): EventDefinition {
  const [schema, options] = '~standard' in first ? [first, second] : [undefined, first]
  checkOptions(options, { orderingKey: true }, 'the definition of an event')
  return { schema, orderingKey: (payload) => options.orderingKey?.(payload) ?? null }
}

export type EventDefinitions = Readonly<Record<string, EventDefinition>>

/** `Catalogue` without its parameter stands for no catalogue at all: any type, unknown payloads. */
export interface Catalogue<Definitions extends EventDefinitions = EventDefinitions> {
  readonly definitions: Definitions
  /** The payload as its schema returns it. Throws SCHEMA_MISMATCH if the payload does not match. */
  validate(type: string, payload: unknown): Promise<unknown>
  /** The ordering key that follows from a validated payload. */
  orderingKey(type: string, payload: unknown): string | null
}

export function defineEvents<Definitions extends EventDefinitions>(
  definitions: Definitions,
): Catalogue<Definitions> {
  for (const [type, definition] of Object.entries(definitions)) {
    checkType(type)
    checkDefinition(type, definition)
  }
  return {
    definitions,
    async validate(type, payload) {
      const { schema } = definitionOf(definitions, type)
      return schema === undefined ? payload : fit(schema, type, payload)
    },
    orderingKey: (type, payload) => definitionOf(definitions, type).orderingKey(payload),
  }
}

async function fit(schema: StandardSchemaV1, type: string, payload: unknown): Promise<unknown> {
  const result = await schema['~standard'].validate(payload)
  if (!result.issues) return result.value
  throw new PosthornError('SCHEMA_MISMATCH', {
    type,
    issues: result.issues.slice(0, issuesMax).map(describeIssue),
  })
}

const issuesMax = 20

function describeIssue({ path = [], message }: StandardSchemaV1.Issue): string {
  const keys = path.map((segment) => String(typeof segment === 'object' ? segment.key : segment))
  return keys.length === 0 ? message : `${keys.join('.')}: ${message}`
}

function definitionOf(definitions: EventDefinitions, type: string): EventDefinition {
  const definition = Object.hasOwn(definitions, type) ? definitions[type] : undefined
  if (definition !== undefined) return definition
  const expected = `a type of the catalogue (${Object.keys(definitions).join(', ')})`
  throw badEvent('type', expected, type)
}

function checkType(type: string): void {
  if (typePattern.test(type)) return
  throw badOption('events', 'named by event types', type)
}

/** A schema that was not passed to event() would look like a definition. */
function checkDefinition(type: string, definition: unknown): void {
  if (typeof (definition as EventDefinition | undefined)?.orderingKey === 'function') return
  throw badOption(`events[${type}]`, 'made by event(schema) or event()', definition)
}

export type EventType<C extends Catalogue> = keyof C['definitions'] & string

/** Type of event → its payload as handlers see it. */
export type EventMap<C extends Catalogue> = {
  readonly [Type in EventType<C>]: C['definitions'][Type] extends EventDefinition<infer _, infer Output>
    ? Output
    : never
}

/** Type of event → its payload as publishers give it, before defaults and transformations. */
export type PublishMap<C extends Catalogue> = {
  readonly [Type in EventType<C>]: C['definitions'][Type] extends EventDefinition<infer Input, infer _>
    ? Input
    : never
}

/** What `publish` takes: an event of the catalogue, or work without a type. */
export type EventToPublish<C extends Catalogue> =
  string extends EventType<C>
    ? EventInput
    : { [Type in EventType<C>]: FieldsOf<Type, PublishMap<C>[Type]> }[EventType<C>] | Untyped

interface FieldsOf<Type, Payload> extends Omit<EventFields, 'type'> {
  readonly type: Type
  readonly payload: Payload
}

interface Untyped extends Omit<EventFields, 'type'> {
  readonly type?: null | undefined
  readonly payload: unknown
}

/** What `on` takes: a type of the catalogue, a prefix of one followed by `.*`, or `*`. */
export type EventPattern<C extends Catalogue> = EventType<C> | `${Prefix<EventType<C>>}.*` | '*'

type Prefix<Type extends string> = Type extends `${infer Head}.${infer Rest}`
  ? Head | `${Head}.${Prefix<Rest>}`
  : never

/** What a handler of the pattern gets: a union that narrows on `event.type`. */
export type EventFor<C extends Catalogue, Pattern extends string> = {
  [Type in MatchingType<C, Pattern>]: StoredEvent<Type, EventMap<C>[Type]>
}[MatchingType<C, Pattern>]

type MatchingType<C extends Catalogue, Pattern extends string> =
  string extends EventType<C> ? Matched<Pattern> : Extract<EventType<C>, Matched<Pattern>>

type Matched<Pattern extends string> = Pattern extends '*'
  ? string
  : Pattern extends `${infer Head}.*`
    ? `${Head}.${string}`
    : Pattern
