import { type JsonSchema, type NamedSchemas, nameOf } from './json-schemas.ts'

/**
 * An example for a schema, made of the words below, for routes that give no example. The situation is the name of the route,
 * for an answer followed by its status.
 */
export function exampleOf(schema: JsonSchema, schemas: NamedSchemas, situation: string): unknown {
  return exampleAt(schema, { name: '', owners: [situation] }, schemas)
}

interface Spot {
  readonly name: string
  /** The situation, and the named schema that has the field. */
  readonly owners: readonly string[]
}

function exampleAt(schema: JsonSchema, spot: Spot, schemas: NamedSchemas): unknown {
  const word = wordFor(spot.name, schema, spot.owners)
  if (word !== undefined) return word
  if (schema.$ref !== undefined) {
    const owners = [...spot.owners.slice(0, 1), nameOf(schema.$ref)]
    return exampleAt(schemas.resolve(schema), { name: '', owners }, schemas)
  }
  if (schema.const !== undefined) return schema.const
  if (schema.enum !== undefined) return schema.enum[0]
  if (accepts(schema, null)) return null
  if (schema.anyOf !== undefined) return exampleAt(schema.anyOf[0] as JsonSchema, spot, schemas)
  if (schema.type === 'array') return [exampleAt((schema.items ?? {}) as JsonSchema, spot, schemas)]
  if (schema.type === 'object') return objectOf(schema, spot.owners, schemas)
  return scalarOf(schema)
}

/** The required fields; if there are none, those that have a word below. */
function objectOf(
  schema: JsonSchema,
  owners: Spot['owners'],
  schemas: NamedSchemas,
): Record<string, unknown> {
  const fields = Object.entries((schema.properties ?? {}) as Record<string, JsonSchema>)
  const required = schema.required ?? []
  const shown = fields.filter(([name, field]) =>
    required.length > 0 ? required.includes(name) : wordFor(name, field, owners) !== undefined,
  )
  return Object.fromEntries(shown.map(([name, field]) => [name, exampleAt(field, { name, owners }, schemas)]))
}

function scalarOf({ type, format, minimum }: JsonSchema): unknown {
  if (type === 'boolean') return false
  if (type === 'integer' || type === 'number') return minimum ?? 1
  if (format === 'date-time') return '2026-01-05T09:30:00.000Z'
  if (format === 'uuid') return uuid
  return type === 'string' ? 'text' : null
}

/** The word for a field of this name, if the field accepts its type. */
export function wordFor(name: string, schema: JsonSchema, owners: readonly string[]): unknown {
  const keys = [...owners.map((owner) => `${owner}.${name}`), name]
  const key = keys.find((one) => Object.hasOwn(words, one))
  return key !== undefined && accepts(schema, words[key]) ? words[key] : undefined
}

function accepts(schema: JsonSchema, word: unknown): boolean {
  if (schema.$ref !== undefined || schema.const !== undefined) return false
  if (schema.enum !== undefined) return schema.enum.some((one) => one === word)
  if (schema.anyOf !== undefined) return schema.anyOf.some((one) => accepts(one as JsonSchema, word))
  // Payloads may be anything.
  if (schema.type === undefined) return true
  const types: readonly unknown[] = Array.isArray(schema.type) ? schema.type : [schema.type]
  if (word === null) return types.includes('null')
  if (Array.isArray(word)) return types.includes('array')
  if (typeof word === 'number') return types.includes('integer') || types.includes('number')
  return types.includes(typeof word)
}

const uuid = '0198e2a4-7c1b-7d52-9a3e-5f0c6b8d1e27'
const later = '2026-01-05T09:35:00.000Z'

/** Example values by field name. A more particular value is named with its situation, its schema, or the first part of the path. */
export const words: Readonly<Record<string, unknown>> = {
  id: 1001,
  event_id: 1001,
  type: null,
  title: 'Send Email Notification',
  description: 'Send welcome email to new user',
  tags: 'email,notification',
  payload: { user_id: 12345, email: 'user@example.com', template: 'welcome' },
  ordering_key: null,
  retry_count: 0,
  max_retries: 3,
  worker_id: 'worker-02:8742',
  lease_token: 'r1-2s-0',
  lease_expires_at: later,
  attempt: 1,
  subscription: 'work',
  lease: 60,
  limit: 20,
  offset: 0,
  include_logs: 'true',
  action: 'COMPLETED',
  cancelled_event_ids: [],
  held: false,
  in_flight: 3,
  reason: 'wrong prices',
  cancelled: 1,
  told: 0,
  reset: 1,
  name: 'billing',
  status: 'ok',
  lease_seconds: 300,
  'subscribers.id': uuid,
  'LeasedEvent.status': 'PROCESSING',
  'FailEntry.action': 'FAILED',
  'FailEntry.retry_scheduled': true,
  'FailEntry.next_retry_at': later,
  'FailEntry.retry_count': 1,
  'SettleResults.status': 200,
  'Delivery.state': 'waiting',
  'Delivery.attempts': 0,
  'Delivery.failures': 0,
  'Delivery.worker_id': null,
  'Subscriber.via': 'pull',
  'Subscriber.event_types': ['invoice.*'],
  'Subscriber.tags': 'eu',
  'Subscriber.status': 'active',
  'Subscriber.is_active': true,
  'Subscriber.retry_delay_seconds': 300,
  'publishEvent 202.type': 'order.created',
  'publishEvent 202.title': null,
  'publishEvent 202.description': null,
  'publishEvent 202.tags': null,
  'publishEvent 202.ordering_key': 'customer-7',
  'publishEvent 202.payload': { order: 42, total: '19.90' },
  'startEvent 200.action': 'STARTED',
  'releaseEvent 200.action': 'RELEASED',
  'pauseSubscriber 200.status': 'paused',
  'pauseSubscriber 200.is_active': false,
}
