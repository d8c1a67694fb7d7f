import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { type TestServer, useServers } from '../../support/http.ts'
import { certificates } from './certificate.ts'
import { canary, httpReceiver, listening, rawReceiver } from './receiver.ts'
import {
  deadLettersOf,
  openDispatching,
  openInbox,
  publish,
  type Settled,
  settledTimes,
  subscribe,
} from './setup.ts'

const servers = useServers('dispatcher_matrix')

const buried = [301, 302, 307, 308, 400, 401, 403, 404, 408, 409, 422, 428, 430, 499]
const retried = [429, 500, 502, 503, 599]

test('each status settles a delivery as the matrix says, and no redirect is followed', async () => {
  const server = await openDispatching(servers)
  const elsewhere = await canary()
  const receiver = await httpReceiver((request, response) => {
    const status = Number(request.url?.slice(1))
    response.writeHead(status, status < 400 ? { location: elsewhere.url } : {}).end('as asked')
  })
  const statuses = [200, 201, 202, 204, 299, ...buried, ...retried]
  const settled = await deliverEach(
    server,
    statuses.map((status) => [String(status), `http://127.0.0.1:${receiver.port}/${status}`]),
  )
  const expected = statuses.map((status) => {
    if (status < 300) return [String(status), { became: 'COMPLETED', last: completed(status), letters: [] }]
    const reason = `The endpoint answered ${status}`
    return buried.includes(status)
      ? [String(status), { became: 'FAILED', last: failed('buried', status, reason), letters: [reason] }]
      : [String(status), { became: 'PENDING', last: failed('retried', status, reason), letters: [] }]
  })
  expect(settled).toEqual(Object.fromEntries(expected))
  expect(elsewhere.sockets).toEqual([])
})

test('an endpoint that cannot be reached costs a delivery nothing', async () => {
  const server = await openDispatching(servers)
  const reset = await rawReceiver((socket) => socket.resetAndDestroy())
  const closed = await rawReceiver((socket) => socket.end())
  const selfSigned = await listening(createTlsServer(certificates.valid))
  const urls: [string, string][] = [
    ['reset', reset.url],
    ['reset by a plain end', closed.url],
    ['refused', 'http://127.0.0.1:1/hook'],
    ['tls', selfSigned.url.replace('http:', 'https:')],
    ['tls to plain http', reset.url.replace('http:', 'https:')],
    ['dns', 'http://nowhere.invalid/hook'],
  ]
  const settled = await deliverEach(server, urls, { timeout_ms: 1_000 })
  const classes = ['reset', 'reset', 'refused', 'tls', 'reset', 'dns']
  const expected = urls.map(([name], place) => {
    const errorClass = classes[place]
    const last = {
      ...{ settlement: 'retried', failures: 0, statusCode: null, errorClass },
      reason: expect.stringMatching(`^${errorClass}: `),
      waitSeconds: fiveSeconds,
    }
    return [name, { became: 'PENDING', last, letters: [] }]
  })
  expect(settled).toEqual(Object.fromEntries(expected))
  const { json } = await server.call('GET', '/subscribers?limit=100')
  const webhooks = (json.subscribers as { via: string; endpoint: { unreachable_in_a_row: number } }[]).filter(
    ({ via }) => via === 'webhook',
  )
  expect(webhooks.map(({ endpoint }) => endpoint.unreachable_in_a_row)).toEqual(urls.map(() => 1))
})

test('what counts is retried after 5, 30 and 300 seconds, and then is a dead letter', async () => {
  const server = await openDispatching(servers)
  const answers: Record<string, (socket: Socket) => void> = {
    'answered 500': (socket) => socket.end('HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n'),
    'answered 429': (socket) => socket.end('HTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n'),
    timeout: () => undefined,
    'protocol, no HTTP': (socket) => socket.end('SSH-2.0-OpenSSH_9.6\r\n'),
    'protocol, an endless head': (socket) => socket.end(`HTTP/1.1 200 OK\r\nx: ${'a'.repeat(200_000)}`),
  }
  const ids = new Map<string, number>()
  for (const [place, [name, answer]] of Object.entries(answers).entries()) {
    const { url } = await rawReceiver(answer)
    await subscribe(server, url, { event_types: [`t.${place}`], timeout_ms: 300 })
    ids.set(name, await publish(server, { type: `t.${place}` }))
  }
  for (const [round, seconds] of [5, 30, 300].entries()) {
    for (const [name, id] of ids) {
      const last = (await settledTimes(server, id, round + 1)).at(-1)
      expect({ name, ...last }).toMatchObject({ name, settlement: 'retried', failures: round + 1 })
      expect(last?.waitSeconds, name).toBeGreaterThanOrEqual(seconds)
      expect(last?.waitSeconds, name).toBeLessThanOrEqual(seconds * 1.1)
      const { json } = await server.call('GET', `/events/${id}`)
      expect(json).toMatchObject({ status: 'PENDING', retry_count: round + 1, max_retries: 4 })
      expect(json.next_retry_at).not.toBeNull()
    }
    await server.clock.advance(seconds * 1_100 + 1)
  }
  for (const [name, id] of ids) {
    const last = (await settledTimes(server, id, 4)).at(-1) as Settled
    expect({ name, ...last }).toMatchObject({ name, settlement: 'buried', failures: 4, waitSeconds: null })
    expect(last.errorClass ?? `answered ${last.statusCode}`).toBe(name.split(',')[0])
    expect(await deadLettersOf(server, id)).toEqual([last.reason])
    const { json } = await server.call('GET', `/events/${id}`)
    expect(json).toMatchObject({ status: 'FAILED', retry_count: 4, next_retry_at: null })
  }
})

test('headers of a 2xx are enough, whatever the body does', async () => {
  const server = await openDispatching(servers)
  const head = 'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n'
  const stalling = await rawReceiver((socket) => socket.write(`${head}slow`))
  const cut = await rawReceiver((socket) => socket.write(head, () => socket.resetAndDestroy()))
  const settled = await deliverEach(
    server,
    [
      ['stalling', stalling.url],
      ['cut', cut.url],
    ],
    // A busy machine needs longer for the headers than a quiet one.
    { timeout_ms: 3_000 },
  )
  const delivered = { became: 'COMPLETED', last: completed(200), letters: [] }
  expect(settled).toEqual({ stalling: delivered, cut: delivered })
})

test('whatever bytes an answer has, it is kept and the delivery is settled', async () => {
  const server = await openDispatching(servers)
  const odd = [
    'null',
    'NULL',
    '{}',
    '","',
    '{"a":"\\\\"}',
    '\\u0000',
    '\u0000',
    '\ud83d\ude00',
    '\\',
    "'",
    '',
  ]
  const bodies = [
    Buffer.from(Array.from({ length: 256 }, (_, n) => n)),
    ...odd.map((text) => Buffer.from(text)),
  ]
  const urls: [string, string][] = []
  for (const [place, body] of bodies.entries()) {
    const head = `HTTP/1.1 200 OK\r\nx-odd: \xff\x80 {"\\ \r\ncontent-length: ${body.length}\r\n\r\n`
    const { url } = await rawReceiver((socket) =>
      socket.end(Buffer.concat([Buffer.from(head, 'latin1'), body])),
    )
    urls.push([String(place), url])
  }
  const settled = await deliverEach(server, urls)
  expect(Object.values(settled)).toEqual(
    urls.map(() => ({ became: 'COMPLETED', last: completed(200), letters: [] })),
  )
  const { rows } = await server.db.query(
    `select response->>'bytes' as bytes from ${server.db.schema}.exchanges order by event_id`,
  )
  expect(rows.map(({ bytes }) => Number(bytes))).toEqual(bodies.map(({ length }) => length))
})

test('a 410 counts as an attempt, with its error, and as no failure', async () => {
  const server = await openDispatching(servers)
  let isGone = true
  const inbox = await openInbox(() => (isGone ? 410 : 204))
  const { id } = await subscribe(server, inbox.url, { retry_backoff_seconds: [1] })
  const event = await publish(server)
  await settledTimes(server, event, 1)
  const { deliveries } = (await server.call('GET', `/deliveries?event_id=${event}`)).json
  const delivery = async () => (await server.call('GET', `/deliveries/${deliveries[0].id}`)).json
  const error = 'The endpoint answered 410'
  expect(await delivery()).toMatchObject({
    ...{ attempt_count: 1, failures: 0, lastError: error },
    attempts: [{ number: 1, settlement: 'retried', status_code: 410, error }],
  })
  isGone = false
  await server.call('POST', `/subscribers/${id}/resume`)
  await server.clock.advance(10_000)
  const [, second] = await inbox.count(2)
  expect(second?.headers['posthorn-attempt']).toBe('2')
  await settledTimes(server, event, 2)
  expect(await delivery()).toMatchObject({
    ...{ status: 'delivered', attempt_count: 2, failures: 0 },
    attempts: [{ number: 1 }, { number: 2, settlement: 'completed' }],
  })
})

test('410 pauses the subscriber, holds the delivery, and costs nothing', async () => {
  const server = await openDispatching(servers)
  let isGone = true
  const inbox = await openInbox(() => (isGone ? 410 : 204))
  const alerts = await openInbox()
  await subscribe(server, alerts.url, { event_types: ['posthorn.subscription.paused'] })
  const { id, name } = await subscribe(server, inbox.url)
  const event = await publish(server)
  const [alert] = await alerts.count(1)
  expect(JSON.parse(alert?.body ?? '')).toMatchObject({
    type: 'posthorn.subscription.paused',
    data: { subscription: name, reason: 'The endpoint answered 410' },
  })
  const paused = await server.call('GET', `/subscribers/${id}`)
  expect(paused.json).toMatchObject({ status: 'paused', is_active: false })
  const later = await publish(server)
  await server.drain()
  for (const held of [event, later]) {
    const { json } = await server.call('GET', `/events/${held}`)
    expect(json).toMatchObject({ status: 'PENDING', retry_count: 0 })
  }
  expect(inbox.all).toHaveLength(1)
  isGone = false
  expect((await server.call('POST', `/subscribers/${id}/resume`)).json).toMatchObject({ status: 'active' })
  await server.clock.advance(10_000)
  const [first, ...others] = await inbox.count(3)
  expect(others.map(({ headers }) => headers['webhook-id'])).toContain(first?.headers['webhook-id'])
  await server.drain()
  expect((await server.call('GET', `/events/${event}`)).json).toMatchObject({
    status: 'COMPLETED',
    retry_count: 0,
  })
})

test('a subscriber’s own rules come before the matrix', async () => {
  const server = await openDispatching(servers)
  const outcomes = {
    '404': 'retry',
    '5xx': 'bury',
    '503': 'retry',
    '410': 'deliver',
    '3xx': 'deliver',
    '204': 'bury',
  }
  const receiver = await httpReceiver((request, response) => {
    response.writeHead(Number(request.url?.slice(1))).end()
  })
  const statuses = [404, 500, 503, 410, 302, 204, 200, 429]
  const urls = statuses.map((status) => [`${status}`, `http://127.0.0.1:${receiver.port}/${status}`] as const)
  const settled = await deliverEach(server, urls, { outcomes })
  const became = Object.entries(settled).map(([name, { last }]) => [name, last?.settlement])
  expect(Object.fromEntries(became)).toEqual({
    ...{ 404: 'retried', 500: 'buried', 503: 'retried', 410: 'completed' },
    ...{ 302: 'completed', 204: 'buried', 200: 'completed', 429: 'retried' },
  })
})

test('a name that leads to this machine is blocked when it is dialled', async () => {
  const server = await openDispatching(servers, { hub: { allowCidrs: '10.0.0.0/8' } })
  const elsewhere = await canary()
  const settled = await deliverEach(server, [['blocked', `http://hooks.localhost:${elsewhere.port}/`]])
  expect(settled).toEqual({ blocked: { became: 'FAILED', last: blocked, letters: [blocked.reason] } })
  expect(elsewhere.sockets).toEqual([])
})

test('an address that was allowed when it was registered is blocked when it no longer is', async () => {
  const schema = 'less_allowed'
  const before = await openDispatching(servers, { hub: { schema, dispatcher: false } })
  const elsewhere = await canary()
  await subscribe(before, elsewhere.url)
  const after = await openDispatching(servers, { hub: { schema, allowCidrs: [] } })
  const id = await publish(after)
  expect(await settledTimes(after, id, 1)).toEqual([blocked])
  expect(elsewhere.sockets).toEqual([])
})

const fiveSeconds = expect.toSatisfy((seconds: number) => seconds >= 5 && seconds <= 5.5)
const blocked = {
  ...{ settlement: 'buried', failures: 1, statusCode: null, errorClass: 'blocked', waitSeconds: null },
  reason: expect.stringContaining('blocked: '),
}

function completed(statusCode: number): Settled {
  return {
    ...{ settlement: 'completed', failures: 0, reason: null, waitSeconds: null },
    ...{ statusCode, errorClass: null },
  }
}

function failed(settlement: 'retried' | 'buried', statusCode: number, reason: string): Settled {
  const waitSeconds = settlement === 'retried' ? fiveSeconds : null
  return { settlement, failures: 1, reason, statusCode, errorClass: null, waitSeconds }
}

/** One event to a subscriber for each url: what became of it after one attempt, by name. */
async function deliverEach(
  server: TestServer,
  urls: readonly (readonly [name: string, url: string])[],
  more: object = {},
): Promise<Record<string, { became: string; last: Settled | undefined; letters: string[] }>> {
  const ids: number[] = []
  for (const [place, [, url]] of urls.entries()) {
    await subscribe(server, url, { event_types: [`t.${place}`], ...more })
    ids.push(await publish(server, { type: `t.${place}` }))
  }
  const became = urls.map(async ([name], place) => {
    const id = ids[place] as number
    const settled = await settledTimes(server, id, 1)
    expect(settled, name).toHaveLength(1)
    const { status } = (await server.call('GET', `/events/${id}`)).json
    return [name, { became: status, last: settled[0], letters: await deadLettersOf(server, id) }]
  })
  return Object.fromEntries(await Promise.all(became))
}
