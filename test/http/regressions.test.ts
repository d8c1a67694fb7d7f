import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { createKey } from '../../src/keys/api-keys.ts'
import { type TestServer, useServers } from '../support/http.ts'

const servers = useServers('regressions')

async function publish(server: TestServer, event: object): Promise<number> {
  const { json } = await server.call('POST', '/events', { title: 'x', tags: 'a', payload: 1, ...event })
  return json.id
}

describe('leasing', () => {
  test('a long poll costs one request of its key, however long it waits', async () => {
    const server = await servers.open({ freshMs: 50 })
    const { text } = await createKey(server.db, {
      name: 'slow',
      scopes: ['consume'],
      ratePerSecond: 0.5,
      actor: 'test',
    })
    await server.hub.publish({ title: 'x', tags: 'a', payload: 1 })
    const headers = { authorization: `Bearer ${text}` }
    const answer = await server.call('GET', '/events/subscribe?tags=a&worker_id=w&wait=5', undefined, headers)
    expect(answer).toMatchObject({ status: 200, json: { id: 1 } })
  })

  test('whoever waits hears of a limit that was set meanwhile', async () => {
    const server = await servers.open()
    const made = await server.call('POST', '/subscribers', { name: 'q', via: 'pull', event_types: ['t'] })
    const parked = server.call('GET', '/events/subscribe?subscription=q&worker_id=w&wait=20')
    while (server.hub.pull.waiting === 0) await turn()
    await server.call('PATCH', `/subscribers/${made.json.id}`, { max_concurrency: 5 })
    await server.call('POST', '/events', { type: 't', payload: 1 })
    expect(await parked).toMatchObject({ status: 200, json: { type: 't' } })
  })

  test('what expires within a minute comes first, also by tag', async () => {
    const server = await servers.open()
    const [oldest] = [await publish(server, {}), await publish(server, {}), await publish(server, {})]
    const soon = await publish(server, { expires_at: new Date(Date.now() + 30_000).toISOString() })
    const { json } = await server.call('GET', '/events/subscribe?tags=a&worker_id=w&limit=2')
    expect(json.map(({ id }: { id: number }) => id).sort()).toEqual([oldest, soon])
  })

  test('large payloads are leased in answers of a bounded size', async () => {
    const server = await servers.open()
    for (let n = 0; n < 24; n++) await publish(server, { payload: 'x'.repeat(1_000_000) })
    const sizes: number[] = []
    for (let got = 0; got < 24; got += sizes.at(-1) as number) {
      const { json } = await server.call('GET', '/events/subscribe?tags=a&worker_id=w&limit=1000')
      sizes.push(json.length)
    }
    // The first answer teaches how large they are.
    expect(Math.max(...sizes.slice(1), 0)).toBeLessThanOrEqual(17)
  })
})

describe('subscribers', () => {
  test('a change of one field leaves the retries as they are, whatever their kind', async () => {
    const server = await servers.open()
    await server.hub.subscribe('t', { name: 'q', retry: { baseMs: 500 } })
    const { json } = await server.call('GET', '/subscribers')
    const { id } = json.subscribers.find((one: { name: string }) => one.name === 'q')
    await server.call('PATCH', `/subscribers/${id}`, { lease_seconds: 30 })
    const [after] = (await server.hub.subscriptions()).filter(({ name }) => name === 'q')
    expect(after).toMatchObject({ leaseMs: 30_000, retry: { kind: 'exponential', baseMs: 500 } })
  })

  test('changes of different fields at the same time are both kept', async () => {
    const server = await servers.open()
    const { json } = await server.call('POST', '/subscribers', { name: 'q', via: 'pull', event_types: ['t'] })
    await Promise.all([
      server.call('PATCH', `/subscribers/${json.id}`, { lease_seconds: 30 }),
      server.call('PATCH', `/subscribers/${json.id}`, { max_concurrency: 7 }),
      server.call('PATCH', `/subscribers/${json.id}`, { event_types: ['u'] }),
    ])
    const after = await server.call('GET', `/subscribers/${json.id}`)
    expect(after.json).toMatchObject({ lease_seconds: 30, max_concurrency: 7, event_types: ['u'] })
  })

  test('a change after the end brings nothing back, and a second end spares the one that has the name now', async () => {
    const server = await servers.open()
    const make = () => server.call('POST', '/subscribers', { name: 'q', via: 'pull', event_types: ['t'] })
    const { json: first } = await make()
    await server.call('DELETE', `/subscribers/${first.id}`)
    expect((await server.call('PATCH', `/subscribers/${first.id}`, { lease_seconds: 30 })).status).toBe(404)
    const { json: second } = await make()
    expect((await server.call('DELETE', `/subscribers/${first.id}`)).status).toBe(404)
    expect((await server.call('GET', `/subscribers/${second.id}`)).status).toBe(200)
  })
})

test('a dead letter whose payload no text can hold is listed like any other', async () => {
  const server = await servers.open()
  await server.call('POST', '/events', '{"type":"x","payload":"a\\u0000\\ud800","require_route":true}')
  const { deadLetters } = await server.hub.deadLetters()
  expect(deadLetters).toHaveLength(1)
  const { rows } = await server.db.query(`select message_id from ${server.db.schema}.dead_letter_queue`)
  expect(rows).toHaveLength(1)
})

test('a late completion of a second attempt does not count the reclaim as a failure', async () => {
  const server = await servers.open()
  const id = await publish(server, {})
  const lease = () => server.call('GET', '/events/subscribe?tags=a&worker_id=w')
  await lease()
  await server.call('POST', `/events/${id}/fail`, { worker_id: 'w' })
  await server.clock.advance(300_000)
  const { json } = await lease()
  await server.clock.advance(61_000)
  const late = await server.call('POST', `/events/${id}/complete`, { lease_token: json.lease_token })
  expect(late.status).toBe(200)
  expect((await server.call('GET', `/events/${id}`)).json).toMatchObject({
    status: 'COMPLETED',
    retry_count: 1,
  })
})

test('a worker can say to have begun only what it was granted', async () => {
  const server = await servers.open()
  const first = await publish(server, { ordering_key: 'k' })
  const second = await publish(server, { ordering_key: 'k' })
  const { json } = await server.call('GET', '/events/subscribe?tags=a&worker_id=w&begin=reported')
  expect(json.id).toBe(first)
  await server.call('POST', `/events/${first}/heartbeat`, {
    lease_token: json.lease_token,
    begun: [first, second],
  })
  expect((await server.call('GET', `/events/${second}`)).json.status).toBe('PENDING')
  expect((await server.call('GET', `/events/${first}`)).json.status).toBe('PROCESSING')
})

test('a newer schema leaves a running server ready', async () => {
  const server = await servers.open()
  await server.db.query(
    `insert into ${server.db.schema}.migrations (number, name, checksum) values (9999, '9999_later.sql', 'x')`,
  )
  expect(await server.call('GET', '/readyz')).toMatchObject({ status: 200 })
})
