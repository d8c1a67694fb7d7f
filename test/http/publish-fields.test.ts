import { expect, test } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'

/** What an event may say of itself, under which names, and what it is told when it says it wrongly. */

const servers = useServers('publish_fields')
const isTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/)
const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b9c7c989f97918e1-01'
const letters = (count: number) => 'x'.repeat(count)
const fact = { type: 'a.b', payload: null }

async function published(server: TestServer, event: object, headers?: Record<string, string>) {
  const { status, json } = await server.call('POST', '/events', event, headers)
  expect(json).toMatchObject({ id: expect.any(Number) })
  return { status, json, read: (await server.call('GET', `/events/${json.id}`)).json }
}

test('every field comes back as it was given, those not given only where they are always there', async () => {
  const server = await servers.open()
  const all = {
    ...{ type: 'Order:created_v2.eu-west', title: 'An order', description: '', tags: 'b,a' },
    ...{ payload: { n: 1 }, ordering_key: 'customer-7', concurrency_key: 'tenant 1', version: '1.0.0' },
    ...{ source: { type: 'task', id: '7', name: 'Näme' }, timestamp: '2024-03-15T10:00:00.123Z' },
    ...{ correlation_id: 'c', causation_id: 'd', traceparent, max_retries: 7 },
    ...{ run_at: '2024-01-01T00:00:00.000Z', expires_at: '2999-12-31T23:59:59.999Z' },
    attributes: { flag: true, number: 1.5, text: 'x' },
  }
  const standing = { status: 'PENDING', retry_count: 0, next_retry_at: null }
  const dates = { id: expect.any(Number), created_at: isTime, updated_at: isTime }
  const first = await published(server, { ...all, require_route: false, idempotency_key: 'k' })
  expect(first.status).toBe(201)
  expect(first.json).toEqual({ ...all, ...standing, ...dates, durability: 'durable' })
  const { durability: _, ...stored } = first.json
  expect(first.read).toEqual({ ...stored, deliveries: [expect.objectContaining({ state: 'waiting' })] })
  const plain = await published(server, fact)
  expect(plain.status).toBe(202)
  expect(plain.json).toEqual({
    ...{ ...fact, title: null, description: null, tags: null, ordering_key: null, max_retries: null },
    ...{ ...standing, ...dates, status: 'COMPLETED', durability: 'durable' },
  })
})

test('what is null was not given', async () => {
  const server = await servers.open()
  const names = ['title', 'description', 'tags', 'ordering_key', 'concurrency_key', 'version', 'source']
  const more = ['timestamp', 'correlation_id', 'causation_id', 'traceparent', 'run_at', 'expires_at']
  const rest = ['max_retries', 'require_route', 'idempotency_key', 'attributes', 'metadata', 'eventId']
  const nulls = Object.fromEntries([...names, ...more, ...rest].map((name) => [name, null]))
  const { json, status } = await published(server, { ...fact, ...nulls })
  expect(status).toBe(202)
  expect(Object.keys(json)).not.toContain('source')
})

test('work is answered 201, a fact 202; both are work', async () => {
  const server = await servers.open()
  const status = async (event: object) => (await published(server, { payload: 1, ...event })).status
  expect(await status({ title: 't', tags: 'a' })).toBe(201)
  expect(await status({ type: 'a', tags: ['a'] })).toBe(201)
  expect(await status({ type: 'a' })).toBe(202)
  expect(await status({ type: 'a', tags: ' , ' })).toBe(202)
})

test('tags are trimmed and each is there once, in the order given', async () => {
  const server = await servers.open()
  const cases: [given: unknown, out: string][] = [
    ['a, b ,a,,c', 'a,b,c'],
    [['b', ' a ', 'b'], 'b,a'],
    ['Zürich,😀', 'Zürich,😀'],
  ]
  for (const [tags, out] of cases) expect((await published(server, { ...fact, tags })).json.tags).toBe(out)
})

test('a type and an ordering key have other names too, which may all be given if they agree', async () => {
  const server = await servers.open()
  for (const name of ['type', 'event_type', 'name', 'pattern']) {
    const { json, read } = await published(server, { [name]: 'order.created', group_id: 'g', payload: 1 })
    expect(json).toMatchObject({ type: 'order.created', ordering_key: 'g' })
    expect(read).toMatchObject({ type: 'order.created', ordering_key: 'g' })
  }
  const same = { type: 'a', event_type: 'a', name: 'a', pattern: null, ordering_key: 'g', group_id: 'g' }
  expect((await published(server, { ...same, payload: 1 })).json).toMatchObject({ type: 'a' })
})

test('an event that says two things under two names of one field is told of both', async () => {
  const server = await servers.open()
  const cases: [event: object, field: string, other: string, value: string][] = [
    [{ type: 'a', event_type: 'b' }, 'event_type', 'type', 'b'],
    [{ pattern: 'a', name: 'b' }, 'name', 'pattern', 'b'],
    [{ type: 'a', group_id: 'x', ordering_key: 'y' }, 'ordering_key', 'group_id', 'y'],
    [{ type: 'a', eventId: '1', idempotency_key: '2' }, 'idempotency_key', 'eventId', '2'],
    [
      { type: 'a', correlation_id: 'x', metadata: { correlationId: 'y' } },
      'metadata.correlationId',
      'correlation_id',
      'y',
    ],
  ]
  for (const [event, field, other, value] of cases) {
    const { status, json } = await server.call('POST', '/events', { ...event, payload: 1 })
    expect(status).toBe(422)
    expect(json).toMatchObject({ code: 'bad_event', field, value })
    expect(json.expected).toContain(`the same as ${other}`)
  }
})

test('an event with eventId and metadata is taken field by field, its eventId as the idempotency key', async () => {
  const server = await servers.open()
  const document = {
    eventId: 'evt_456def789ghi012',
    pattern: 'payment.received',
    version: '1.0.0',
    source: { type: 'integration', id: 'stripe_payments', name: 'Stripe Payments' },
    timestamp: '2024-03-15T10:05:00.456Z',
    payload: { payment_id: 'PAY-002', amount: 750.0 },
    metadata: {
      ...{ correlationId: 'corr_xyz789', causationId: 'evt_1', traceId: 'trace-1', retryCount: 2 },
      ...{ lastError: 'Connection timeout', lastErrorTime: '2024-03-15T10:06:00.123Z' },
      processingStartTime: '2024-03-15T10:05:59.000Z',
    },
  }
  const { eventId, pattern, metadata, ...same } = document
  const { status, json, read } = await published(server, document)
  expect(status).toBe(202)
  const expected = { ...same, type: pattern, correlation_id: 'corr_xyz789', causation_id: 'evt_1' }
  expect(json).toMatchObject({ ...expected, attributes: { traceid: 'trace-1' }, retry_count: 0 })
  expect(read).toMatchObject({ ...expected, attributes: { traceid: 'trace-1' }, retry_count: 0 })
  const again = await server.call('POST', '/events', document)
  expect(again.headers.get('idempotency-replayed')).toBe('true')
  expect(again.json.id).toBe(json.id)
  const other = await server.call('POST', '/events', { ...document, payload: {} })
  expect(other).toMatchObject({ status: 422, json: { code: 'idempotency_mismatch', key: eventId } })
})

test('what its metadata says of an event comes back in its queue as it was given', async () => {
  const server = await servers.open()
  await server.hub.subscribe('payment.*', { name: 'payments' })
  const metadata = {
    ...{ correlationId: 'corr_1', causationId: 'evt_1', traceId: 'not a W3C trace id' },
    ...{ lastError: 'Connection timeout', lastErrorTime: '2024-03-15T10:06:00.123Z' },
  }
  const event = { pattern: 'payment.received', payload: 1, metadata: { ...metadata, retryCount: 2 } }
  const header = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b9c7c989f97918e1-01' }
  expect((await server.call('POST', '/events', event, header)).status).toBe(202)
  const queue = await server.call('GET', '/queues/payments')
  expect(queue.json.events).toMatchObject([{ metadata: { ...metadata, retryCount: 0 } }])
  await server.hub.queues.checkpoint('payments')
  const { db } = server
  const { rows } = await db.query(`select events from ${db.schema}.event_queue_state where id = 'payments'`)
  expect(rows).toMatchObject([{ events: [{ metadata }] }])
  const leased = await server.call('POST', '/events/subscribe?subscription=payments&worker_id=w', undefined)
  await server.call('POST', `/events/${leased.json.id}/fail`, { worker_id: 'w', error_message: 'busy' })
  const after = await server.call('GET', '/queues/payments')
  expect(after.json.events[0].metadata).toMatchObject({ traceId: metadata.traceId, lastError: 'busy' })
  expect(after.json.events[0].metadata.lastErrorTime).not.toBe(metadata.lastErrorTime)
})

test('the trace id in metadata goes beside other attributes, whichever comes first', async () => {
  const server = await servers.open()
  const [attributes, metadata] = [{ attributes: { a: 1 } }, { metadata: { traceId: 't' } }]
  for (const event of [
    { ...fact, ...attributes, ...metadata },
    { ...fact, ...metadata, ...attributes },
  ]) {
    expect((await published(server, event)).read.attributes).toEqual({ a: 1, traceid: 't' })
  }
})

test('an event with a type and no tags is answered 202 and is idempotent by header', async () => {
  const server = await servers.open()
  const event = { event_type: 'order.created', payload: { order_id: '42' } }
  const headers = { 'x-idempotency-key': 'order-42' }
  const first = await server.call('POST', '/events', event, headers)
  expect(first).toMatchObject({ status: 202, json: { type: 'order.created', payload: event.payload } })
  const second = await server.call('POST', '/events', event, headers)
  expect(second).toMatchObject({ status: 202, text: first.text })
  for (const half of [{ event_type: 'a' }, { payload: 1 }]) {
    expect(await server.call('POST', '/events', half)).toMatchObject({ status: 422 })
  }
})

test('the trace of the request goes with the event and on to its worker, unless the event has its own', async () => {
  const server = await servers.open()
  const own = traceparent.replace('e1-01', 'e2-00')
  const headers = { traceparent, tracestate: 'vendor=1' }
  const first = await published(server, { ...fact, tags: 'a' }, headers)
  const second = await published(server, { ...fact, tags: 'a', traceparent: own }, headers)
  const bad = await published(server, { ...fact, tags: 'a' }, { traceparent: 'x', tracestate: 'vendor=1' })
  const lease = async () => (await server.call('GET', '/events/subscribe?tags=a&worker_id=w')).json
  for (const one of [first.json, first.read, await lease()]) {
    expect(one).toMatchObject({ traceparent, attributes: { tracestate: 'vendor=1' } })
  }
  for (const one of [second.json, second.read, await lease()]) expect(one.traceparent).toBe(own)
  for (const one of [bad.json, bad.read, await lease()]) expect(one).not.toHaveProperty('traceparent')
  const { json } = await server.call('GET', `/events/${first.json.id}`, undefined, {
    accept: 'application/cloudevents+json',
  })
  expect(json).toMatchObject({ traceparent, tracestate: 'vendor=1' })
})

test('where the hub says that somebody must want an event, that holds for what comes over HTTP too', async () => {
  const server = await servers.open({ hub: { requireRoute: true } })
  expect((await published(server, fact)).read.status).toBe('FAILED')
  const { json } = await server.call('POST', '/events/batch', [fact, { ...fact, require_route: false }])
  expect(json.events).toMatchObject([{ status: 'FAILED' }, { status: 'COMPLETED' }])
  expect((await server.hub.deadLetters()).deadLetters).toMatchObject([
    { reason: 'no_handler' },
    { reason: 'no_handler' },
  ])
})

test('when an event expires by its type is told at once, and again to whoever repeats it', async () => {
  const server = await servers.open()
  await server.hub.defineType('a.b', { maxAgeMs: 60_000 })
  const headers = { 'idempotency-key': 'k' }
  const { json, read } = await published(server, fact, headers)
  expect(json.expires_at).toBe(new Date(Date.parse(json.created_at) + 60_000).toISOString())
  expect(read.expires_at).toBe(json.expires_at)
  expect((await published(server, fact, headers)).json).toEqual(json)
  const expires_at = '2999-12-31T23:59:59.999Z'
  expect((await published(server, { ...fact, expires_at })).json.expires_at).toBe(expires_at)
})

test('texts may be as long as they may be', async () => {
  const server = await servers.open()
  const key = '😀'.repeat(127)
  const { read } = await published(server, {
    ...{ type: letters(100), title: letters(500), description: letters(10_000), payload: 1 },
    ...{
      ordering_key: key,
      concurrency_key: key,
      correlation_id: key,
      causation_id: key,
      version: letters(100),
    },
    tags: Array.from({ length: 32 }, (_, n) => `${n}${'😀'.repeat(49)}`),
    ...{ idempotency_key: key, max_retries: 1000, source: { type: key, id: key, name: key } },
    ...{ timestamp: '0001-01-01T00:00:00Z', expires_at: '9999-12-31T23:59:59.999Z' },
  })
  expect(read).toMatchObject({ ordering_key: key, source: { name: key }, max_retries: 1000 })
  const lease = await server.call('GET', `/events/subscribe?tags=0${'😀'.repeat(49)}&worker_id=w`)
  expect(lease).toMatchObject({ status: 200, json: { id: read.id } })
})
