import { expect, test } from 'vitest'
import { useServers } from '../support/http.ts'

const servers = useServers('storage')

async function leased(server: Awaited<ReturnType<typeof servers.open>>) {
  const { json } = await server.call('GET', '/events/subscribe?tags=a&worker_id=w')
  return json as { id: number; lease_token: string }
}

test('storage tells tables and policies', async () => {
  const server = await servers.open()
  await server.hub.defineType('t', { keepMs: 0 })
  const { status, json } = await server.call('GET', '/storage')
  expect(status).toBe(200)
  expect(json).toMatchObject({
    keep_finished_ms: 604_800_000,
    keep_audit_ms: 604_800_000,
    keep_dead_letters_ms: 7_776_000_000,
    archives_audit: false,
    types: [{ type: 't', keep_ms: 0 }],
  })
  expect(json.tables.map(({ table }: { table: string }) => table)).toContain('audit')
  expect(json.bytes).toBeGreaterThan(100_000)
})

test('a purge erases a finished event, is in the admin log, and may be repeated', async () => {
  const server = await servers.open()
  await server.call('POST', '/events', { type: 't', title: 'Ada', tags: 'a', payload: { name: 'Ada' } })
  const { id } = await leased(server)
  const early = await server.call('POST', `/events/${id}/purge`)
  expect(early.status).toBe(409)
  expect(early.json).toMatchObject({ code: 'not_finished' })
  await server.call('POST', `/events/${id}/complete`, { worker_id: 'w' })
  const first = await server.call('POST', `/events/${id}/purge?reason=asked`)
  expect(first.status).toBe(200)
  expect(first.json).toEqual({ event_id: id, purged_at: expect.any(String) })
  expect((await server.call('POST', `/events/${id}/purge`)).json).toEqual(first.json)
  const { json } = await server.call('GET', `/events/${id}?include_logs=true`)
  expect(json).toMatchObject({
    payload: null,
    title: null,
    status: 'COMPLETED',
    ...{ purged_at: first.json.purged_at },
  })
  expect(json.logs).toHaveLength(2)
  const { rows } = await server.db.query(`select action, target, details from ${server.db.schema}.admin_log`)
  expect(rows).toEqual([{ action: 'event.purge', target: String(id), details: { reason: 'asked' } }])
})

test('purging what is not there is 404, a reason that is too long 422', async () => {
  const server = await servers.open()
  expect((await server.call('POST', '/events/7/purge')).status).toBe(404)
  const long = await server.call('POST', `/events/7/purge?reason=${'x'.repeat(4_001)}`)
  expect(long.status).toBe(422)
  expect(long.json.detail).toContain('reason')
})

test('a completion is answered alike when its event is gone, by token and by worker', async () => {
  const server = await servers.open()
  await server.hub.defineType('t', { keepMs: 0 })
  await server.call('POST', '/events', { type: 't', tags: 'a', payload: 1 })
  const { id, lease_token } = await leased(server)
  const first = await server.call('POST', `/events/${id}/complete`, { lease_token, execution_time_ms: 5 })
  expect(first.status).toBe(200)
  expect((await server.call('GET', `/events/${id}`)).status).toBe(404)
  const byToken = await server.call('POST', `/events/${id}/complete`, { lease_token })
  const byWorker = await server.call('POST', `/events/${id}/complete`, { worker_id: 'w' })
  expect(byToken.json).toEqual(first.json)
  expect(byWorker.json).toEqual(first.json)
  expect((await server.call('POST', `/events/${id}/fail`, { lease_token })).status).toBe(404)
  await server.clock.advance(24 * 3_600_000)
  await server.hub.prune({ olderThanMs: 0 })
  expect((await server.call('POST', `/events/${id}/complete`, { lease_token })).status).toBe(404)
})

test('a publish is answered alike when its event is gone', async () => {
  const server = await servers.open()
  await server.hub.defineType('t', { keepMs: 0 })
  const publish = () =>
    server.call('POST', '/events', { type: 't', tags: 'a', payload: 1 }, { 'idempotency-key': 'k' })
  const first = await publish()
  const { id } = await leased(server)
  await server.call('POST', `/events/${id}/complete`, { worker_id: 'w' })
  expect((await server.call('GET', `/events/${id}`)).status).toBe(404)
  const again = await publish()
  expect(again.headers.get('idempotency-replayed')).toBe('true')
  expect(again.json).toEqual(first.json)
})
