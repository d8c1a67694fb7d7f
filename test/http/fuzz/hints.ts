import fc from 'fast-check'
import type { JsonSchema } from '../../../src/http/docs/json-schemas.ts'
import { Exact, Slot, type SlotKind, type Tree } from './tree.ts'

/**
 * Few words for fields whose values must meet: tags that somebody asks for, types that somebody wants, ids and tokens
 * that an earlier answer gave. Undefined for the other fields.
 */
export function hinted(name: string, schema: JsonSchema): fc.Arbitrary<Tree> | undefined {
  if (schema.type === 'array') return undefined
  if (name === 'ids' && schema.format === 'uuid') return slot('dead letter')
  return Object.hasOwn(hints, name) ? hints[name] : undefined
}

export const tags = fc.constantFrom('email', 'email', 'eu', 'email,eu')
export const types = fc.constantFrom('order.created', 'order.paid', 'user.created', 'a')

export function slot(kind: SlotKind): fc.Arbitrary<Slot> {
  return fc.nat(1_000).map((pick) => new Slot(kind, pick))
}

/** JSON that does not survive being parsed and printed again, and some that does. */
export const payloads = fc.oneof(
  { arbitrary: fc.json({ maxDepth: 4 }), weight: 4 },
  {
    arbitrary: fc.constantFrom(
      ...[
        'null',
        '1e400',
        '-1e-400',
        '-0',
        '1.0',
        '123456789012345678901234567890',
        '"\\u0000"',
        '"\\ud800"',
      ],
      ...[
        '{"a":1,"a":2}',
        '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":1}}}',
        '""',
      ],
      ...[
        '{"b":1,\n\t"a" : 2}',
        '[ 1 , 2 ]',
        '"\\/\\u0041\\ud83d\\ude00😀"',
        '"\u2028\u202e\x7f\ufeff"',
        '{"":{"":[]}}',
      ],
      ...['{"payload":1,"ordering_key":null}', '",\\"ordering_key\\":"', '"$1\'; drop table events; --"'],
    ),
    weight: 6,
  },
  { arbitrary: fc.constantFrom(nested(64), `"${'x'.repeat(100_000)}"`, manyKeys(2_000)), weight: 1 },
)

export function nested(depth: number): string {
  return '['.repeat(depth) + ']'.repeat(depth)
}

export function manyKeys(count: number): string {
  return `{${Array.from({ length: count }, (_, place) => `"k${place}":${place}`).join(',')}}`
}

const traceparents = fc.constantFrom(
  '00-0af7651916cd43dd8448eb211c80319c-b9c7c989f97918e1-01',
  'cc-12345678901234567890123456789012-1234567890123456-00',
)

const hints: Readonly<Record<string, fc.Arbitrary<Tree>>> = {
  tags,
  via: fc.constant('pull'),
  type: types,
  event_types: fc.oneof(types, fc.constantFrom('order.*', '*')),
  ordering_key: fc.constantFrom('customer-7', 'customer-8'),
  idempotency_key: fc.constantFrom('key-1', 'key-2', 'key-3'),
  worker_id: slot('worker'),
  lease_token: slot('lease token'),
  event_id: slot('lease event'),
  ids: slot('event'),
  event_ids: slot('event'),
  begun: slot('lease event'),
  subscription: fc.oneof(slot('name'), fc.constant('work')),
  subscriber: fc.oneof(slot('name'), slot('subscriber'), fc.constant('work')),
  event_type: types,
  key: fc.constantFrom('customer-7', 'customer-8'),
  cursor: slot('cursor'),
  wait: fc.oneof({ arbitrary: fc.constant(0), weight: 20 }, fc.constant(1)),
  limit: fc.integer({ min: 1, max: 10 }),
  traceparent: traceparents,
  payload: payloads.map((text) => new Exact(text)),
}
