import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { deliveryId } from '../../../src/domain/id.ts'
import { verify } from '../../../src/webhooks/index.ts'
import { useServers } from '../../support/http.ts'
import { openDispatching, openInbox, publish, subscribe, until } from './setup.ts'

const servers = useServers('dispatcher_send')

test('an event reaches its subscriber, signed, with its payload byte for byte', async () => {
  const server = await openDispatching(servers)
  const inbox = await openInbox()
  const { secret, id } = await subscribe(server, inbox.url, { headers: { 'X-Team': 'billing' } })
  const payload = '{ "b": 1e400, "a":"\\u0000", "b": 12345678901234567890 }'
  const answer = await server.call(
    'POST',
    '/events',
    `{"type":"invoice.paid","payload":${payload},"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`,
    { 'content-type': 'application/json' },
  )
  const [delivered] = await inbox.count(1)
  const { headers, body } = delivered as NonNullable<typeof delivered>

  expect(secret).toMatch(/^whsec_/)
  expect(body).toBe(
    `{"type":"invoice.paid","timestamp":"${answer.json.timestamp ?? answer.json.created_at}","data":${payload}}`,
  )
  expect(verify(body, headers as Record<string, string>, secret)).toBeTruthy()
  const subscriber = await server.hub.subscribers.get(id)
  expect(headers).toMatchObject({
    'webhook-id': deliveryId({
      createdAtMs: Date.parse(answer.json.created_at),
      eventId: answer.json.id,
      subscriptionNo: subscriber.no,
    }),
    'posthorn-event-id': String(answer.json.id),
    'posthorn-attempt': '1',
    'x-team': 'billing',
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    'content-type': 'application/json',
  })
  expect(headers['posthorn-sequence']).toBeUndefined()
  await server.drain()
  const { json } = await server.call('GET', `/events/${answer.json.id}`)
  expect(json.status).toBe('COMPLETED')
  const [exchange] = (
    await server.db.query('select * from __schema__.exchanges'.replace('__schema__', server.db.schema))
  ).rows
  expect(exchange).toMatchObject({
    status_code: 204,
    request: {
      url: inbox.url,
      body_sha256: createHash('sha256').update(body).digest('hex'),
      body_bytes: Buffer.byteLength(body),
    },
  })
})

test('a lane is numbered without gaps, and each tells what was delivered before it', async () => {
  const server = await openDispatching(servers)
  const inbox = await openInbox(({ body }) => (body.includes('"n":3') ? 400 : 200))
  await subscribe(server, inbox.url, { ordering_key: '/payload/customer' })
  for (let n = 1; n <= 5; n++) await publish(server, { payload: { n, customer: 'ä 1' } })
  await inbox.count(5)
  const seen = inbox.all.map(({ headers }) => [
    headers['posthorn-ordering-key'],
    headers['posthorn-sequence'],
    headers['posthorn-previous-sequence'],
    headers['posthorn-skipped'],
  ])
  expect(seen).toEqual([
    ['%C3%A4%201', '1', '0', undefined],
    ['%C3%A4%201', '2', '1', undefined],
    ['%C3%A4%201', '3', '2', undefined],
    ['%C3%A4%201', '4', '2', '3'],
    ['%C3%A4%201', '5', '4', undefined],
  ])
})

test('a retry has the same id and number, and a new attempt', async () => {
  const server = await openDispatching(servers)
  let answers = 0
  const inbox = await openInbox(() => (++answers === 1 ? 500 : 200))
  await subscribe(server, inbox.url)
  const id = await publish(server, { ordering_key: 'k' })
  await inbox.count(1)
  await until(async () => (await server.call('GET', `/events/${id}`)).json.retry_count === 1)
  await server.clock.advance(5_600)
  const [first, second] = await inbox.count(2)
  expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id'])
  expect(second?.headers['posthorn-sequence']).toBe('1')
  expect([first?.headers['posthorn-attempt'], second?.headers['posthorn-attempt']]).toEqual(['1', '2'])
})
