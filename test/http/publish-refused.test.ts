import { expect, test } from 'vitest'
import { useServers } from '../support/http.ts'

/** Every rule of every field: who breaks one is told which field, what was expected, and what it was instead. */

const servers = useServers('publish_refused')
const letters = (count: number) => 'x'.repeat(count)
const fact = { type: 'a.b', payload: null }
const unstorable = ['a\0b', '\ud800', 'a\udc00']

/** A field, bad values for it, and the name the problem gives it where that is another. */
const bad: [field: string, values: unknown[], named?: string][] = [
  ...['type', 'event_type', 'name', 'pattern'].map((name): [string, unknown[]] => [
    name,
    ['', 'a b', 'a,b', 'ä', '*', letters(101), 7, true, [], {}, 'a\n'],
  ]),
  ['title', ['', letters(501), 7, [], ...unstorable]],
  ['description', [letters(10_001), 7, {}, ...unstorable]],
  ['tags', [7, true, {}, [7], [''], ['a,b'], [['a']], letters(101), [letters(101)], ...unstorable]],
  ['tags', [Array.from({ length: 33 }, (_, n) => `t${n}`), Array.from({ length: 33 }, (_, n) => n).join()]],
  ...['ordering_key', 'group_id', 'concurrency_key', 'correlation_id', 'causation_id'].map(
    (name): [string, unknown[]] => [name, ['', letters(256), 7, false, [], {}, ...unstorable]],
  ),
  ...['idempotency_key', 'eventId'].map((name): [string, unknown[]] => [
    name,
    ['', letters(256), 7, {}, ...unstorable],
  ]),
  ['version', ['', letters(101), 1, ...unstorable]],
  ['source', ['x', 7, true, [], ['x']]],
  ['source', [{ type: '' }, { type: 7 }, { type: letters(256) }, { type: 'a\0' }], 'source.type'],
  ['source', [{ id: 7 }, { id: {} }], 'source.id'],
  ['source', [{ name: [] }, { name: '\ud800' }], 'source.name'],
  ['source', [{ type: 'a', url: 'x' }], 'source.url'],
  ...['timestamp', 'run_at', 'expires_at'].map((name): [string, unknown[]] => [
    name,
    [
      ...['', 'now', '2024-01-01', '2024-01-01T00:00:00', '2024-02-30T00:00:00Z', '2024-01-01T25:00:00Z'],
      ...[
        '2024-13-01T00:00:00Z',
        '0000-12-31T23:59:59Z',
        '9999-12-31T23:59:59-01:00',
        '10000-01-01T00:00:00Z',
      ],
      ...['2024-01-01 00:00:00Z', '2024-01-01T00:00:00+1:00', 1_700_000_000, true, {}, []],
    ],
  ]),
  ['run_at', ['2999-01-02T00:00:00Z', '2999-01-01T00:00:00Z', '2999-01-01T00:30:00+00:30']],
  ['traceparent', ['', 'x', `00-${letters(32)}-b9c7c989f97918e1-01`, 7]],
  ['traceparent', [`00-${'0'.repeat(32)}-b9c7c989f97918e1-01`, `ff-${'a'.repeat(32)}-b9c7c989f97918e1-01`]],
  ['max_retries', [0, -1, 1.5, 1001, Number.POSITIVE_INFINITY, '3', true, []]],
  ['require_route', ['true', 1, 0, {}]],
  ['attributes', ['x', 7, [], { a: {} }, { a: [] }, { a: null }, { a: 'b\0' }, { 'a\0': 1 }]],
  ['attributes', [{ a: letters(64_001) }]],
  ['metadata', ['x', 7, [], true]],
  ['metadata', [{ correlationId: 7 }, { correlationId: '' }], 'metadata.correlationId'],
  ['metadata', [{ causationId: letters(256) }], 'metadata.causationId'],
  ['metadata', [{ traceId: 7 }, { traceId: {} }], 'metadata.traceId'],
  ['metadata', [{ userId: 'x' }], 'metadata.userId'],
]

/** Enough to be an event but for the field in question, which may be another name for one of these. */
function eventWith(field: string, value: unknown) {
  if (['event_type', 'name', 'pattern'].includes(field)) return { payload: null, [field]: value }
  if (field === 'run_at') return { ...fact, run_at: value, expires_at: '2999-01-01T00:00:00Z' }
  return { ...fact, [field]: value }
}

test('a field that breaks a rule is named, as the caller wrote it', async () => {
  const server = await servers.open()
  for (const [field, values, named = field] of bad) {
    for (const value of values) {
      // JSON has no infinity, but a number that is read as one.
      const body = JSON.stringify(eventWith(field, value)).replace(`"${field}":null`, `"${field}":1e400`)
      const { status, json } = await server.call('POST', '/events', body)
      expect({ body, status, code: json.code, field: json.field }).toEqual({
        ...{ body, status: 422, code: 'bad_event', field: named },
      })
      expect(json.error).toMatch(new RegExp(`^Expected ${named.replace('.', '\\.')} to be `))
      expect(json.error).not.toMatch(/orderingKey|concurrencyKey|expiresAt|runAt|payloadText/)
    }
  }
  expect((await server.hub.listEvents()).total).toBe(0)
})

test('a field that no event has is named with its value, cut where it is long', async () => {
  const server = await servers.open()
  const unknown: [name: string, value: unknown, shown: unknown][] = [
    ['fooBar', 'x', '"x"'],
    ['id', 7, '7'],
    ['status', 'COMPLETED', '"COMPLETED"'],
    ['created_at', null, 'null'],
    ['Type', 'a', '"a"'],
    ['orderingKey', { a: [1] }, '{"a":[1]}'],
    ['payload_text', letters(500_000), `"${letters(199)}`],
    ['__proto__', { admin: true }, '{"admin":true}'],
    ['constructor', 1, '1'],
    ['toString', 1, '1'],
    ['', 1, '1'],
    ['naïve\n', 1, '1'],
  ]
  for (const [name, value, shown] of unknown) {
    const body = `{"type":"a","payload":1,${JSON.stringify(name)}:${JSON.stringify(value)}}`
    const { status, json } = await server.call('POST', '/events', body)
    expect(status, name).toBe(422)
    expect(json, name).toMatchObject({ code: 'bad_event', field: name, value: shown })
  }
  const long = await server.call('POST', '/events', { ...fact, [letters(500_000)]: 1 })
  expect(long).toMatchObject({ status: 422, json: { field: letters(200) } })
  expect(long.text.length).toBeLessThan(2_000)
})

test('an event needs a type or a title, and a type or tags', async () => {
  const server = await servers.open()
  for (const event of [
    {},
    { title: 't' },
    { tags: 'a' },
    { title: 't', tags: ' ,' },
    { title: 't', tags: [] },
  ]) {
    const { status, json } = await server.call('POST', '/events', { ...event, payload: 1 })
    expect({ event, status, field: json.field }).toEqual({ event, status: 422, field: 'type' })
  }
})

test('a bad idempotency key is named by its header', async () => {
  const server = await servers.open()
  for (const name of ['Idempotency-Key', 'X-Idempotency-Key']) {
    for (const key of ['', letters(256)]) {
      const { status, json } = await server.call('POST', '/events', fact, { [name]: key })
      expect({ status, field: json.field }).toEqual({ status: 422, field: name })
    }
  }
  const both = { 'Idempotency-Key': 'a', 'X-Idempotency-Key': 'b' }
  expect(await server.call('POST', '/events', fact, both)).toMatchObject({
    ...{ status: 422, json: { field: 'Idempotency-Key', value: 'a' } },
  })
  for (const name of ['eventId', 'idempotency_key']) {
    const answer = await server.call('POST', '/events', { ...fact, [name]: 'b' }, { 'Idempotency-Key': 'a' })
    expect(answer).toMatchObject({ status: 422, json: { field: name, value: 'b' } })
  }
})

test('what cannot be text in the database is refused wherever it is asked for, too', async () => {
  const server = await servers.open()
  const queries = [
    'ordering_key=%00',
    'tags=a%00',
    'type=a%00',
    'cursor=%00',
    'payload.a=%00',
    'payload.%00=1',
  ]
  for (const query of queries) {
    expect(
      (await server.call('GET', `/events?created_from=2020-01-01T00:00:00Z&${query}`)).status,
      query,
    ).toBe(422)
  }
  for (const query of ['worker_id=%00&tags=a', 'worker_id=w&tags=%00', 'worker_id=w&subscription=%00']) {
    expect((await server.call('GET', `/events/subscribe?${query}`)).status, query).toBe(422)
  }
  for (const filter of [{ ordering_key: '\0' }, { type: '\0' }, { tags: '\0' }]) {
    expect((await server.call('POST', '/events/cancel', filter)).status).toBe(422)
  }
})

test('an unknown field is named together with the one that was meant', async () => {
  const { call } = await servers.open()
  const refused = await call('POST', '/events', { ...fact, orderingKey: 'a' })
  expect(refused.status).toBe(422)
  expect(refused.json.error).toMatch(/orderingKey .*did you mean ordering_key\?/)
  const subscriber = { url: 'https://a.example', event_types: ['a'], max_concurency: 5 }
  const unknown = await call('POST', '/subscribers', subscriber)
  expect(unknown.json.error).toMatch(/max_concurency .*did you mean max_concurrency\?/)
})
