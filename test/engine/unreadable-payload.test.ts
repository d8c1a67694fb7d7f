import { describe, expect, test } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'

/** JSON may hold what PostgreSQL can store as text but not look into. Whoever orders or filters by it must not fail. */

const servers = useServers('unreadable_payload')
const queue = { via: 'pull', event_types: ['t'] }
const ordered = { ...queue, name: 'q', ordering_key: '/payload/k' }
const unreadable = [
  ['an escaped NUL', '{"k":"a","b":"\\u0000"}'],
  ['half a surrogate pair', '{"k":"a","b":"\\ud800"}'],
  ['a number beyond numeric', '{"k":"a","b":1e200000}'],
  ['an escaped NUL in a name', '{"k":"a","\\u0000":1}'],
] as const

function body(payload: string): string {
  return `{"type":"t","payload":${payload}}`
}

/** The lane of the only delivery of an event. */
async function laneOf({ call }: TestServer, eventId: number): Promise<unknown> {
  const { json } = await call('GET', `/deliveries?event_id=${eventId}`)
  const found = await call('GET', `/deliveries/${json.deliveries[0].id}`)
  expect(found.status).toBe(200)
  return found.json.lane?.ordering_key ?? null
}

describe.each(unreadable)('a payload with %s', (_, payload) => {
  test('has no ordering key, instead of failing its publish', async () => {
    const server = await servers.open()
    await server.call('POST', '/subscribers', ordered)
    const { status, json } = await server.call('POST', '/events', body(payload))
    expect(status).toBe(202)
    expect(await laneOf(server, json.id)).toBeNull()
  })

  test('does not fail the batch that it is part of, nor take the others out of their lane', async () => {
    const server = await servers.open()
    await server.call('POST', '/subscribers', ordered)
    const batch = `[${[body('{"k":"a"}'), body(payload), body('{"k":"a"}')].join()}]`
    const { status, json } = await server.call('POST', '/events/batch', batch)
    expect(status).toBe(201)
    const ids = json.events.map((event: { id: number }) => event.id)
    const lanes: unknown[] = []
    for (const id of ids) lanes.push(await laneOf(server, id))
    expect(lanes).toEqual(['a', null, 'a'])
    const leased = await server.call('GET', '/events/subscribe?subscription=q&worker_id=w&limit=10')
    expect(leased.json.map((event: { id: number }) => event.id).sort()).toEqual(ids.slice(0, 2))
  })

  test('is published by SQL', async () => {
    const server = await servers.open()
    await server.call('POST', '/subscribers', ordered)
    const { schema } = server.db
    const { rows } = await server.db.query<{ id: string }>(`select ${schema}.publish('t', $1) as id`, [
      payload,
    ])
    expect(await laneOf(server, Number(rows[0]?.id))).toBeNull()
  })

  test('is matched by no filter that looks into it, not even by one for what is not there', async () => {
    const server = await servers.open()
    await server.call('POST', '/subscribers', { ...queue, name: 'has', filter: { '/payload/k': 'a' } })
    await server.call('POST', '/subscribers', {
      ...queue,
      name: 'lacks',
      filter: { '/payload/z': { exists: false } },
    })
    await server.call('POST', '/subscribers', { ...queue, name: 'type', filter: { '/type': 't' } })
    const { json } = await server.call('POST', '/events', body(payload))
    const deliveries = (await server.hub.event(json.id))?.deliveries ?? []
    expect(deliveries.map(({ name }) => name)).toEqual(['type'])
  })

  test('can be looked at, retried and replayed when the ordering key was changed to point into it', async () => {
    const server = await servers.open()
    const { call } = server
    const subscriber = (await call('POST', '/subscribers', { ...queue, name: 'q', max_retries: 1 })).json
    const { id } = (await call('POST', '/events', body(payload))).json
    await call('GET', '/events/subscribe?subscription=q&worker_id=w')
    await call('POST', `/events/${id}/fail`, { worker_id: 'w' })
    await call('PATCH', `/subscribers/${subscriber.id}`, { ordering_key: '/payload/k' })

    expect(await laneOf(server, id)).toBeNull()

    const [letter] = (await call('GET', '/dlq')).json.dead_letters
    expect((await call('POST', `/dlq/${letter.id}/retry`)).status).toBe(200)
    expect((await call('GET', '/events/subscribe?subscription=q&worker_id=w')).json.id).toBe(id)
    await call('POST', `/events/${id}/complete`, { worker_id: 'w' })

    const replay = await call('POST', `/subscribers/${subscriber.id}/replay`, { event_ids: [id] })
    expect(replay.json).toMatchObject({ state: 'completed', total: 1, done: 1 })
    expect((await call('GET', '/events/subscribe?subscription=q&worker_id=w')).json.id).toBe(id)
  })
})
