import { expect, test } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'
import { sendUntilClosed } from './fuzz/connection.ts'

/** One test for each thing that was wrong when the fuzz was run first. */

const servers = useServers('found')

test('a rate next to nothing is refused, and the smallest that is not does not break the leases', async () => {
  const server = await servers.open()
  const body = { name: 'slow', via: 'pull', event_types: ['*'] }
  const none = await server.call('POST', '/subscribers', { ...body, rate_per_second: Number.MIN_VALUE })
  expect(none).toMatchObject({ status: 422, json: { code: 'bad_field', field: 'rate_per_second' } })
  const slow = await server.call('POST', '/subscribers', { ...body, rate_per_second: 0.000_001 })
  expect(slow.status).toBe(201)
  await server.call('POST', '/events/batch', [
    { type: 'a', payload: 1 },
    { type: 'a', payload: 2 },
  ])
  const lease = () => server.call('GET', '/events/subscribe?subscription=slow&worker_id=w&limit=2')
  expect((await lease()).json).toHaveLength(1)
  expect((await lease()).status).toBe(204)
})

test('a schedule can take the place of a delay, and a delay that of a schedule', async () => {
  const server = await servers.open()
  const made = await server.call('POST', '/subscribers', { name: 's', via: 'pull', event_types: ['*'] })
  const change = async (body: object) =>
    (await server.call('PATCH', `/subscribers/${made.json.id}`, body)).json
  expect(made.json).toMatchObject({ retry_delay_seconds: 300, max_retries: 3 })
  expect(await change({ retry_backoff_seconds: [5, 30, 300] })).toMatchObject({
    ...{ retry_backoff_seconds: [5, 30, 300], retry_delay_seconds: null, max_retries: 4 },
  })
  expect(await change({ max_retries: 9 })).toMatchObject({ code: 'bad_field', field: 'max_retries' })
  expect(await change({ retry_delay_seconds: 60 })).toMatchObject({
    ...{ retry_backoff_seconds: null, retry_delay_seconds: 60, max_retries: 4 },
  })
  expect(await change({ max_retries: 9 })).toMatchObject({ retry_delay_seconds: 60, max_retries: 9 })
  await change({ retry_backoff_seconds: [1] })
  expect(await change({ retry_backoff_seconds: null })).toMatchObject({
    ...{ retry_backoff_seconds: null, retry_delay_seconds: 300, max_retries: 2 },
  })
})

test('a text has as many characters as the document counts', async () => {
  const server = await servers.open()
  const smiles = (count: number) => '😀'.repeat(count)
  const event = { title: smiles(500), tags: [smiles(100)], ordering_key: smiles(255), payload: 1 }
  expect((await server.call('POST', '/events', event)).status).toBe(201)
  for (const [field, longer] of Object.entries({
    title: smiles(501),
    tags: [smiles(101)],
    version: smiles(101),
  })) {
    const { status, json } = await server.call('POST', '/events', { ...event, [field]: longer })
    expect({ status, field: json.field }).toEqual({ status: 422, field })
  }
  const worker = encodeURIComponent(smiles(255))
  const query = `tags=${encodeURIComponent(smiles(100))}&worker_id=${worker}`
  expect((await server.call('GET', `/events/subscribe?${query}`)).status).toBe(200)
  const more = await server.call('GET', `/events/subscribe?${query}${encodeURIComponent('😀')}`)
  expect(more).toMatchObject({ status: 422, json: { field: 'worker_id', expected: '<=255 characters' } })
})

test('tags that are wrong are a bad field where there is no event', async () => {
  const server = await servers.open()
  const tag = 'x'.repeat(101)
  const subscriber = { name: 's', via: 'pull', event_types: [], tags: tag }
  const answers = [
    await server.call('GET', `/events/subscribe?worker_id=w&tags=${tag}`),
    await server.call('GET', `/events?tags=${tag}`),
    await server.call('POST', '/events/cancel', { tags: tag }),
    await server.call('POST', '/subscribers', subscriber),
  ]
  for (const { status, json } of answers)
    expect({ status, json }).toMatchObject({ status: 422, json: { code: 'bad_field', field: 'tags' } })
})

test('tags of a megabyte are refused, though they are one tag', async () => {
  const server = await servers.open()
  const tags = 'a,'.repeat(500_000)
  const { status, json } = await server.call('POST', '/events', { title: 'T', tags, payload: 1 })
  expect({ status, json }).toMatchObject({ status: 422, json: { code: 'bad_event', field: 'tags' } })
})

test('a binary CloudEvent says of its data what is known of it, and nothing of none', async () => {
  const server = await servers.open()
  const publish = async (more: object) => {
    const event = { specversion: '1.0', type: 'a', source: '/s', id: JSON.stringify(more), ...more }
    const headers = { 'content-type': 'application/cloudevents+json' }
    const { json } = await server.call('POST', '/events', event, headers)
    const response = await fetch(`${server.url}/events/${json.id}?format=cloudevents-binary`)
    return { type: response.headers.get('content-type'), bytes: Buffer.from(await response.arrayBuffer()) }
  }
  expect(await publish({})).toEqual({ type: null, bytes: Buffer.alloc(0) })
  expect(await publish({ data_base64: '/wA=' })).toEqual({
    type: 'application/octet-stream',
    bytes: Buffer.from([255, 0]),
  })
  expect((await publish({ data: 1 })).type).toMatch(/^application\/json/)
})

test('a coding counts only where there is something to decode', async () => {
  const server = await servers.open()
  const gzip = { 'content-encoding': 'gzip' }
  expect((await server.call('GET', '/livez', undefined, gzip)).status).toBe(200)
  expect((await server.call('POST', '/events', '{}', gzip)).status).toBe(415)
})

const odd: [what: string, head: (host: string) => string, status: number, code?: string][] = [
  ['without a Host', () => 'GET /livez HTTP/1.1', 400, 'bad_request'],
  ['with two Hosts', (host) => `GET /livez HTTP/1.1\r\nHost: ${host}\r\nhost: ${host}`, 400, 'bad_request'],
  [
    'with two Hosts in HTTP/1.0',
    (host) => `GET /livez HTTP/1.0\r\nHost: ${host}\r\nHost: a`,
    400,
    'bad_request',
  ],
  ['without a Host in HTTP/1.0', () => 'GET /livez HTTP/1.0', 200],
  ['that expects something', (host) => `GET /livez HTTP/1.1\r\nHost: ${host}\r\nExpect: 200-ok`, 200],
  ['to connect elsewhere', (host) => `CONNECT a.example:22 HTTP/1.1\r\nHost: ${host}`, 400, 'bad_request'],
  [
    'with too long a target',
    (host) => `GET /${'a'.repeat(20_000)} HTTP/1.1\r\nHost: ${host}`,
    431,
    'head_too_large',
  ],
  ['that is no HTTP', () => 'nonsense', 400, 'bad_request'],
]

test.each(odd)('a request %s is answered in our way', async (_, head, status, code) => {
  const server = await servers.open()
  const [answer] = await ask(server, `${head(new URL(server.url).host)}\r\nConnection: close\r\n\r\n`)
  expect(answer?.status).toBe(status)
  const id = answer?.headers.get('x-request-id')
  expect(id).toMatch(/^[\w.-]{1,64}$/)
  if (code === undefined) return
  expect(answer?.headers.get('content-type')).toMatch(/^application\/problem\+json/)
  expect(JSON.parse(String(answer?.body))).toMatchObject({ status, code, instance: id })
})

function ask(server: TestServer, text: string) {
  const { port } = new URL(server.url)
  return sendUntilClosed(Number(port), Buffer.from(text), { isCutOff: false })
}
