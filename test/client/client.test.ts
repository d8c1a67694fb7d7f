import { expect, test } from 'vitest'
import { PosthornClient, PosthornHttpError } from '../../src/client/index.ts'
import { waitAfter } from '../../src/client/transport.ts'
import { defineEvents, event } from '../../src/domain/catalogue.ts'
import type { EventInput } from '../../src/domain/event.ts'
import { PosthornError } from '../../src/errors.ts'
import { createSignal } from '../support/signal.ts'
import { eventText, leasedText } from './fake-hub.ts'
import { type FakeAnswer, useFakeServers } from './fake-server.ts'

const serve = useFakeServers()
const odd = ' {"b" : 1.0, "a":12345678901234567890, "a":"\\u0000\\ud800 é" } '

test('an event goes out with a key of its own, and comes back as it was', async () => {
  const server = await serve(() => ({
    status: 201,
    body: eventText({ id: 7, payload: odd.trim(), type: 'x' }),
  }))
  const client = new PosthornClient({ url: `${server.url}/`, apiKey: 'ph_1' })
  const published = await client.publish({
    ...{ type: 'x', tags: ['a', 'b'], payloadText: odd, orderingKey: 'k', source: { name: 's' } },
    runAt: new Date('2030-01-01T00:00:00Z'),
  })
  const [request] = server.requests
  expect(request?.headers.authorization).toBe('Bearer ph_1')
  expect(request?.headers['idempotency-key']).toMatch(/^[0-9a-f-]{36}$/)
  expect(request?.body).toBe(
    `{"payload":${odd},"type":"x","tags":["a","b"],"ordering_key":"k","source":{"name":"s"},"run_at":"2030-01-01T00:00:00.000Z"}`,
  )
  expect(published).toMatchObject({
    id: 7,
    type: 'x',
    title: 'a title',
    tags: ['a', 'b'],
    status: 'PROCESSING',
  })
  expect(published).toMatchObject({ payloadText: odd.trim(), maxRetries: 3, retryCount: 0, replayed: false })
  expect(published.createdAt).toEqual(new Date('2026-01-02T03:04:05.678Z'))
})

test('a time or number that is none is refused before anything is sent, not left out', async () => {
  const server = await serve(() => ({ status: 201, body: eventText({ id: 1, payload: '1' }) }))
  const client = new PosthornClient({ url: server.url })
  const never = new Date(Number.NaN)
  for (const [field, value] of [
    ['runAt', never],
    ['expiresAt', never],
    ['timestamp', never],
    ['maxRetries', Number.NaN],
    ['title', () => 'a title'],
  ] as const) {
    const bad = { type: 'x', payload: 1, [field]: value } as EventInput
    const refusal = { code: 'BAD_EVENT', details: { field } }
    await expect(client.publish(bad)).rejects.toMatchObject(refusal)
    const inBatch = { code: 'BAD_EVENT', details: { field: `events[0].${field}` } }
    await expect(client.publishMany([bad])).rejects.toMatchObject(inBatch)
  }
  const refusal = { code: 'BAD_OPTION', details: { option: 'createdTo' } }
  await expect(client.cancelMany({ type: 'x', createdTo: never })).rejects.toMatchObject(refusal)
  await expect(client.listEvents({ createdTo: never })).rejects.toMatchObject(refusal)
  expect(server.requests).toEqual([])
})

test('a key that no header can carry goes in the body', async () => {
  const server = await serve(() => ({ status: 201, body: eventText({ id: 1, payload: '1' }) }))
  const client = new PosthornClient({ url: server.url })
  await client.publish({ type: 'x', payload: 1 }, { idempotencyKey: 'clé' })
  await client.publish({ type: 'x', payload: 1, idempotencyKey: 'k' })
  expect(server.requests[0]?.headers['idempotency-key']).toBeUndefined()
  expect(JSON.parse(server.requests[0]?.body ?? '')).toMatchObject({ idempotency_key: 'clé' })
  expect(server.requests[1]?.headers['idempotency-key']).toBe('k')
})

test('a publish that was answered before says so', async () => {
  const server = await serve(() => ({
    ...{ status: 201, headers: { 'idempotency-replayed': 'true' }, body: eventText({ id: 1, payload: '1' }) },
  }))
  const client = new PosthornClient({ url: server.url })
  expect((await client.publish({ type: 'x', payload: 1 })).replayed).toBe(true)
})

test('a publish to queues that are nearly full names them', async () => {
  const headers = { 'posthorn-backpressure': 'work, billing' }
  const server = await serve(() => ({ status: 201, headers, body: eventText({ id: 1, payload: '1' }) }))
  const client = new PosthornClient({ url: server.url })
  expect((await client.publish({ type: 'x', payload: 1 })).backpressure).toEqual(['work', 'billing'])
})

test.each([
  ['text that is no JSON', { payloadText: '1,"type":"y"' }, 'BAD_PAYLOAD'],
  ['half a surrogate pair', { payloadText: '"\ud800"' }, 'BAD_PAYLOAD'],
  ['nothing', { payload: undefined }, 'BAD_EVENT'],
  ['a function', { payload: () => 1 }, 'BAD_EVENT'],
])('a payload of %s is refused before it is sent', async (_, payload, code) => {
  const client = new PosthornClient({ url: 'http://127.0.0.1:1' })
  const refused = client.publish({ type: 'x', ...payload } as never)
  await expect(refused).rejects.toMatchObject({ name: 'PosthornError', code })
})

test('what may be repeated is, with the same key, until it is answered', async () => {
  const answers: (FakeAnswer | 'hang up')[] = [
    { status: 503, headers: { 'retry-after': '0' }, body: { code: 'database_unavailable' } },
    { status: 429, headers: { 'retry-after': '0' } },
    'hang up',
    { status: 201, body: eventText({ id: 1, payload: '1' }) },
  ]
  const server = await serve(() => answers.shift() as FakeAnswer)
  const client = new PosthornClient({ url: server.url })
  await client.publish({ type: 'x', payload: 1 })
  const keys = server.requests.map(({ headers }) => headers['idempotency-key'])
  expect(keys).toHaveLength(4)
  expect(new Set(keys).size).toBe(1)
})

test('every event of a batch has a key of its own, so that the batch can be repeated', async () => {
  const answers: FakeAnswer[] = [
    { status: 504, headers: { 'retry-after': '0' } },
    {
      status: 201,
      body: `{"events":[${eventText({ id: 1, payload: '1' })},${eventText({ id: 2, payload: '[ 2]' })}]}`,
    },
  ]
  const server = await serve(() => answers.shift() as FakeAnswer)
  const client = new PosthornClient({ url: server.url })
  const events = await client.publishMany([
    { type: 'x', payload: 1 },
    { type: 'x', payloadText: '[ 2]', idempotencyKey: 'k' },
  ])
  expect(events.map(({ id, payloadText }) => [id, payloadText])).toEqual([
    [1, '1'],
    [2, '[ 2]'],
  ])
  const [first, second] = server.requests.map(({ body }) => body)
  expect(second).toBe(first)
  const { events: sent } = JSON.parse(first ?? '') as { events: { idempotency_key: string }[] }
  expect(sent.map((event) => event.idempotency_key)).toEqual([expect.stringMatching(/.{36}/), 'k'])
})

test('what is not idempotent is sent once', async () => {
  const server = await serve(() => ({
    status: 503,
    headers: { 'retry-after': '0' },
    body: { code: 'stopped' },
  }))
  const client = new PosthornClient({ url: server.url })
  const sent: [string, () => Promise<unknown>][] = [
    ['/events/subscribe', () => client.subscribe({ workerId: 'w' })],
    ['/events/1/reset', () => client.reset(1)],
    ['/events/cancel', () => client.cancelMany({ type: 'x' })],
    ['/subscribers', () => client.subscribers.create({ name: 'n' })],
    ['/events/1/complete', () => client.complete({ id: 1, workerId: 'w' })],
  ]
  for (const [, send] of sent) {
    await expect(send()).rejects.toMatchObject({ status: 503, code: 'STOPPED', retryAfterMs: 0 })
  }
  expect(server.requests.map(({ path }) => path)).toEqual(sent.map(([path]) => path))
})

test('with a lease token a settlement is repeated', async () => {
  const answers: FakeAnswer[] = [
    { status: 502, headers: { 'retry-after': '0' }, body: '<html>' },
    {
      body: {
        id: 3,
        event_id: 1,
        worker_id: 'w',
        action: 'COMPLETED',
        created_at: '2026-01-02T03:04:05.000Z',
      },
    },
  ]
  const server = await serve(() => answers.shift() as FakeAnswer)
  const client = new PosthornClient({ url: server.url })
  const entry = await client.complete({ id: 1, leaseToken: 't' }, { executionTimeMs: 5 })
  expect(entry).toEqual({
    ...{ id: 3, eventId: 1, workerId: 'w', action: 'COMPLETED', createdAt: new Date('2026-01-02T03:04:05Z') },
  })
  expect(JSON.parse(server.requests[1]?.body ?? '')).toEqual({ lease_token: 't', execution_time_ms: 5 })
})

test('a failure says whether it was the last', async () => {
  const answers: FakeAnswer[] = [
    {
      body: {
        id: 1,
        event_id: 1,
        action: 'FAILED',
        retry_scheduled: true,
        next_retry_at: '2026-01-01T00:00:00Z',
      },
    },
    {
      status: 400,
      body: { code: 'max_retries_exceeded', error: 'Max retries exceeded', retry_count: 3, max_retries: 3 },
    },
    { status: 400, body: { code: 'bad_json', detail: 'The body is not JSON.' } },
  ]
  const server = await serve(() => answers.shift() as FakeAnswer)
  const client = new PosthornClient({ url: server.url })
  const lease = { id: 1, leaseToken: 't' }
  expect(await client.fail(lease, { errorMessage: 'no', permanent: false })).toMatchObject({
    ...{ retryScheduled: true, nextRetryAt: new Date('2026-01-01T00:00:00Z') },
  })
  expect(await client.fail(lease)).toEqual({ retryScheduled: false, retryCount: 3, maxRetries: 3 })
  await expect(client.fail(lease)).rejects.toMatchObject({ status: 400, code: 'BAD_JSON' })
})

test('a refusal is an error with the server’s words', async () => {
  const server = await serve(() => ({
    ...{
      status: 409,
      body: { code: 'lease_lost', detail: 'The lease is no longer held.', state: 'waiting' },
    },
  }))
  const client = new PosthornClient({ url: server.url })
  const error = await client.heartbeat({ id: 1, leaseToken: 't' }).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(PosthornHttpError)
  expect(error).toMatchObject({
    ...{ status: 409, code: 'LEASE_LOST', message: 'The lease is no longer held.', retryAfterMs: null },
    problem: { state: 'waiting' },
  })
})

test('a server that is not there is UNREACHABLE, and the error says why', async () => {
  const server = await serve(() => ({}))
  await server.close()
  const client = new PosthornClient({ url: server.url, retries: 0 })
  const failing = client.workers()
  await expect(failing).rejects.toMatchObject({ status: 0, code: 'UNREACHABLE' })
  await expect(failing).rejects.toThrow(/ECONNREFUSED/)
})

test('an answer that does not come in time is UNREACHABLE', async () => {
  const never = createSignal()
  const server = await serve(async () => {
    await never.given
    return {}
  })
  const client = new PosthornClient({ url: server.url, retries: 0, timeoutMs: 20 })
  await expect(client.workers()).rejects.toThrow(/more than 20 ms/)
  never.give()
})

test('an answer that is no answer of Posthorn’s is told as one', async () => {
  const server = await serve(() => ({ body: '<html>Welcome</html>' }))
  const client = new PosthornClient({ url: server.url })
  await expect(client.event(1)).rejects.toMatchObject({ status: 200, code: 'BAD_ANSWER' })
})

test('whoever answers that all is well in the server’s stead is not believed', async () => {
  const server = await serve(() => ({ body: { status: 'ok' } }))
  const client = new PosthornClient({ url: server.url })
  const lease = { id: 1, leaseToken: 't' }
  for (const call of [
    () => client.publish({ type: 'a', payload: 1 }),
    () => client.publishMany([{ type: 'a', payload: 1 }]),
    () => client.subscribe({ tags: 'a', workerId: 'w' }),
    () => client.start(lease),
    () => client.heartbeat(lease),
    () => client.complete(lease),
    () => client.fail(lease),
    () => client.settle([{ lease, outcome: 'complete' }]),
    () => client.cancel(1),
    () => client.workers(),
    () => client.subscribers.list(),
    () => client.subscribers.get('x'),
  ]) {
    await expect(call(), String(call)).rejects.toMatchObject({ status: 200, code: 'BAD_ANSWER' })
  }
})

test('a call that is sent elsewhere is refused, and is not made of it what it was not', async () => {
  const server = await serve(({ path }) =>
    path === '/events' ? { status: 301, headers: { location: '/elsewhere' } } : { body: { id: 1 } },
  )
  const client = new PosthornClient({ url: server.url })
  const publishing = client.publish({ type: 'a', payload: 1 })
  await expect(publishing).rejects.toMatchObject({ status: 301, code: 'HTTP_301' })
  expect(server.requests.map(({ path }) => path)).toEqual(['/events'])
})

test('a signal ends a call, and the wait before the next try', async () => {
  const reached = createSignal()
  const server = await serve(async ({ path, gone }) => {
    if (path === '/workers') return { status: 503, headers: { 'retry-after': '50' } }
    reached.give()
    await gone
    return {}
  })
  const client = new PosthornClient({ url: server.url })
  const poll = new AbortController()
  const polling = client.subscribe({ workerId: 'w', waitSeconds: 20, signal: poll.signal })
  await reached.given
  poll.abort(new Error('enough'))
  await expect(polling).rejects.toThrow('enough')
  await expect(client.workers({ signal: AbortSignal.timeout(2_000) })).rejects.toMatchObject({
    name: 'TimeoutError',
  })
  expect(server.requests).toHaveLength(2)
})

test('a lease comes with all that settling needs, one or many', async () => {
  const answers: FakeAnswer[] = [
    { body: leasedText({ id: 1, payload: odd.trim() }, 't1') },
    { body: `[${leasedText({ id: 2, payload: '2' }, 't2')}, ${leasedText({ id: 3, payload: '3' }, 't2')} ]` },
    { status: 204 },
  ]
  const server = await serve(() => answers.shift() as FakeAnswer)
  const client = new PosthornClient({ url: server.url })
  const [one] = await client.subscribe({ workerId: 'w', tags: ['a', 'b'], waitSeconds: 1, leaseSeconds: 30 })
  expect(one).toMatchObject({ id: 1, leaseToken: 't1', attempt: 1, subscription: 'work' })
  expect(one).toMatchObject({ payloadText: odd.trim(), leaseExpiresAt: new Date('2026-01-02T03:05:05.678Z') })
  expect(Object.fromEntries(server.requests[0]?.query ?? [])).toEqual({
    ...{ worker_id: 'w', tags: 'a,b', wait: '1', lease: '30' },
  })
  const many = await client.subscribe({ workerId: 'w', subscription: 'audit', limit: 2 })
  expect(many.map(({ id, leaseToken, payload }) => [id, leaseToken, payload])).toEqual([
    [2, 't2', 2],
    [3, 't2', 3],
  ])
  expect(await client.subscribe({ workerId: 'w' })).toEqual([])
})

test('a leased event as JSON has all that settling it later needs', async () => {
  const server = await serve(() => ({ body: leasedText({ id: 1, payload: '{"n":1}' }, 't1') }))
  const client = new PosthornClient({ url: server.url })
  const [event] = await client.subscribe({ workerId: 'w' })
  expect(JSON.parse(JSON.stringify(event))).toMatchObject({
    ...{ id: 1, payload: { n: 1 }, title: 'a title', status: 'PROCESSING', leaseToken: 't1', attempt: 1 },
  })
})

test('outcomes are settled together, each answered by itself', async () => {
  const server = await serve(() => ({
    body: {
      results: [
        { event_id: 1, status: 200, action: 'COMPLETED' },
        { event_id: 2, status: 409, code: 'lease_lost', error: 'gone' },
      ],
    },
  }))
  const client = new PosthornClient({ url: server.url })
  const results = await client.settle([
    { lease: { id: 1, leaseToken: 'a' }, outcome: 'complete', executionTimeMs: 3 },
    { lease: { id: 2, leaseToken: 'b' }, outcome: 'snooze', afterMs: 1000 },
  ])
  expect(results.map(({ eventId, status }) => [eventId, status])).toEqual([
    [1, 200],
    [2, 409],
  ])
  expect(JSON.parse(server.requests[0]?.body ?? '')).toEqual({
    outcomes: [
      { event_id: 1, lease_token: 'a', outcome: 'complete', execution_time_ms: 3 },
      { event_id: 2, lease_token: 'b', outcome: 'snooze', after_ms: 1000 },
    ],
  })
})

test('all events that match are read page by page', async () => {
  const server = await serve(({ query }) => {
    const page = Number(query.get('cursor') ?? 0)
    const events = [2 * page + 1, 2 * page + 2].map((id) => eventText({ id, payload: `${id}` }))
    const next = page < 2 ? `,"next_cursor":"${page + 1}"` : ''
    return { body: `{"events":[${events}],"total":6,"limit":2,"offset":0${next}}` }
  })
  const client = new PosthornClient({ url: server.url })
  const ids: number[] = []
  const filter = {
    status: 'FAILED',
    type: 'order.*',
    createdFrom: new Date(0),
    payload: { 'a.b': 1 },
  } as const
  for await (const event of client.events({ ...filter, limit: 2 })) ids.push(event.id)
  expect(ids).toEqual([1, 2, 3, 4, 5, 6])
  expect(Object.fromEntries(server.requests[1]?.query ?? [])).toEqual({
    ...{ status: 'FAILED', type: 'order.*', created_from: '1970-01-01T00:00:00.000Z' },
    ...{ 'payload.a.b': '1', limit: '2', cursor: '1' },
  })
})

test('an event comes with its deliveries and its log', async () => {
  const deliveries =
    '"deliveries":[{"id":"d","state":"waiting","next_at":"2026-01-01T00:00:00.000Z","last_error":null}]'
  const logs = '"logs":[{"id":1,"event_id":9,"action":"PICKED","created_at":"2026-01-01T00:00:00.000Z"}]'
  const server = await serve(() => ({ body: eventText({ id: 9, payload: '{}' }, `,${deliveries},${logs}`) }))
  const client = new PosthornClient({ url: server.url })
  const event = await client.event(9, { logs: true })
  expect(server.requests[0]?.query.get('include_logs')).toBe('true')
  expect(event.deliveries).toEqual([
    { id: 'd', state: 'waiting', nextAt: new Date('2026-01-01T00:00:00Z'), lastError: null },
  ])
  expect(event.logs).toEqual([
    { id: 1, eventId: 9, action: 'PICKED', createdAt: new Date('2026-01-01T00:00:00Z') },
  ])
})

test('subscribers have their names in camelCase, and what is in them stays as it is', async () => {
  const body = {
    id: 'u',
    name: 'n',
    event_types: ['a.*'],
    tags: 'x,y',
    headers: { x_team: 't' },
    created_at: '2026-01-01T00:00:00Z',
  }
  const server = await serve(({ path }) => ({
    body: path === '/subscribers/a%2Fb' ? body : { subscribers: [body] },
  }))
  const client = new PosthornClient({ url: server.url })
  const read = {
    id: 'u',
    name: 'n',
    eventTypes: ['a.*'],
    tags: ['x', 'y'],
    headers: { x_team: 't' },
    createdAt: new Date('2026-01-01T00:00:00Z'),
  }
  expect(await client.subscribers.list()).toEqual([read])
  expect(await client.subscribers.update('a/b', { retryBackoffSeconds: [1], maxConcurrency: null })).toEqual(
    read,
  )
  expect(server.requests[1]).toMatchObject({
    method: 'PATCH',
    body: '{"retry_backoff_seconds":[1],"max_concurrency":null}',
  })
})

test('the wait before another try grows, is spread, and is what the server asks for', () => {
  const failed = (status: number, retryAfterMs: number | null = null) =>
    new PosthornHttpError({ status, code: 'X', message: 'x', retryAfterMs })
  expect([0, 1, 2].map((tries) => waitAfter(failed(0), tries, 0.5))).toEqual([200, 400, 800])
  expect([0, 0.9].map((random) => waitAfter(failed(503), 0, random))).toEqual([100, 280])
  expect(waitAfter(failed(502), 99, 0.5)).toBe(10_000)
  expect(waitAfter(failed(429, 3000), 0, 0)).toBe(3000)
  expect(waitAfter(failed(503, 0), 1, 0.5)).toBe(400)
  expect(waitAfter(failed(429, 3_600_000), 0, 0)).toBeUndefined()
  expect([400, 401, 409, 500].map((status) => waitAfter(failed(status), 0))).toEqual(Array(4).fill(undefined))
})

test('a catalogue is known to the compiler', () => {
  const events = defineEvents({
    'order.created': event<{ order: number }>(),
    'user.created': event<{ name: string }>(),
  })
  const client = new PosthornClient<typeof events>({ url: 'http://localhost' })
  const check = () => {
    void client.publish({ type: 'order.created', payload: { order: 1 } })
    // @ts-expect-error the payload of another type
    void client.publish({ type: 'order.created', payload: { name: 'x' } })
    // @ts-expect-error no such type
    void client.publish({ type: 'order.closed', payload: { order: 1 } })
    client.worker({ tags: 'a' }, (event) =>
      event.type === 'order.created' ? event.payload.order.toFixed() : event.payload,
    )
    client.worker(
      { tags: 'a' },
      { 'user.*': (event) => event.payload.name.length, '*': (event) => event.type },
    )
    // @ts-expect-error no such type
    client.worker({ tags: 'a' }, { 'order.closed': () => undefined })
  }
  expect(check).toBeTypeOf('function')
})

test('options that make no sense are refused with the value', () => {
  expect(() => new PosthornClient({ url: 'localhost:8080' })).toThrow(PosthornError)
  expect(() => new PosthornClient({ url: 'http://x', retries: -1 })).toThrow(
    'Expected retries to be an integer from 0 to 100, got -1.',
  )
  for (const apiKey of ['', 'ph_secret\n', 'ph_secret x']) {
    const make = () => new PosthornClient({ url: 'http://x', apiKey })
    expect(make).toThrow('Expected apiKey to be')
    expect(make).not.toThrow('secret')
  }
  for (const url of ['http://user:pa55@x', 'http://x?a=pa55', 'http://x#pa55']) {
    expect(() => new PosthornClient({ url })).toThrow('Expected url to be')
    expect(() => new PosthornClient({ url })).not.toThrow('pa55')
  }
})
