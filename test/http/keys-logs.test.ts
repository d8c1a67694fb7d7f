import { expect, test } from 'vitest'
import { newKey } from '../../src/domain/api-key.ts'
import { createKey } from '../../src/keys/api-keys.ts'
import { createLogger } from '../../src/observe/log.ts'
import { type TestServer, useServers } from '../support/http.ts'

/** Logs say who asked for what and how it went, and nothing that anybody could misuse. */

const servers = useServers('keys_logs')
const canary = (what: string) => `canary-${what}-6e1f`

interface Logged extends TestServer {
  /** Every line so far. */
  readonly logged: () => string
}

/** A server and a hub that log all there is. */
async function open(adminKey?: string): Promise<Logged> {
  const lines: string[] = []
  const log = createLogger('trace', { write: (line: string) => void lines.push(line) })
  const server = await servers.open({ log, hub: { log }, ...(adminKey !== undefined && { adminKey }) })
  return Object.assign(server, { logged: () => lines.join('') })
}

test('no key, whether right or wrong, is written to a log', async () => {
  const adminKey = canary('admin-key')
  const server = await open(adminKey)
  const key = await createKey(server.db, { name: 'app', scopes: ['read'], actor: 'test' })
  const wrong = newKey()
  const basic = Buffer.from(canary('basic')).toString('base64')
  const values = [`Bearer ${adminKey}`, `Bearer ${key.text}`, `Bearer ${wrong.text}`, `Basic ${basic}`]
  for (const authorization of values) {
    for (const [method, path] of [
      ['GET', '/events'],
      ['GET', '/events/0'],
      ['POST', '/events'],
      ['GET', '/no/such/route'],
      ['DELETE', '/events'],
    ] as const) {
      await server.call(method, path, undefined, { authorization, cookie: canary('cookie') })
    }
  }
  const logged = server.logged()
  expect(logged.match(/"msg":"Request"/g)).toHaveLength(values.length * 5)
  for (const secret of [adminKey, key.text, wrong.text, wrong.secret, basic, canary('cookie')]) {
    expect(logged).not.toContain(secret)
  }
  expect(logged).not.toContain(key.text.slice(-43))
})

test('nothing of a payload, a query or a lease token is written to a log', async () => {
  const server = await open()
  const secret = canary('payload')
  const work = { title: 'Work', tags: 'a', payload: { secret } }
  const headers = { 'idempotency-key': 'one' }
  await server.call('POST', '/events', work, headers)
  await server.call('POST', '/events', { ...work, payload: [secret] }, headers)
  await server.call('POST', '/events', `{"type":"a","payload":"${secret}`)
  await server.call('POST', '/events', { type: 'a', payload: 1, unknown: secret })
  await server.call('POST', '/events', { type: secret.repeat(9), payload: secret })
  await server.call('POST', '/events', { type: 'a', payload: secret.repeat(100_000) })
  await server.call('POST', '/events/batch', [work, { ...work, max_retries: secret }])
  await server.call('POST', '/events', secret, { 'content-type': 'text/plain' })

  const query = canary('query')
  await server.call('GET', `/events?payload.secret=${query}`)
  await server.call('GET', `/events?tags=${query}&ordering_key=${query}`)
  await server.call('GET', `/events?cursor=${query}`)
  await server.call('GET', `/no/such/route?token=${query}`)
  await server.call('DELETE', `/events?token=${query}`)
  await server.call('GET', `/events/subscribe?tags=${query}&worker_id=w`)

  const { json } = await server.call('GET', '/events/subscribe?tags=a&worker_id=w')
  const { id, lease_token } = json
  expect(json.payload).toEqual({ secret })
  const madeUp = canary('token')
  for (const token of [madeUp, lease_token]) {
    for (const verb of ['start', 'heartbeat', 'release', 'complete', 'fail']) {
      await server.call('POST', `/events/${id}/${verb}`, { lease_token: token })
    }
    const outcomes = [{ event_id: id, lease_token: token, outcome: 'complete' }]
    await server.call('POST', '/events/settle', { outcomes })
  }
  const logged = server.logged()
  expect(logged.match(/"msg":"Request"/g)?.length).toBeGreaterThan(5)
  expect(logged.match(/"msg":"Request refused"/g)?.length).toBeGreaterThan(10)
  for (const part of [secret, query, madeUp, lease_token]) expect(logged).not.toContain(part)
})

test('an event that the database refuses leaves the error in the log, without its row', async () => {
  const server = await open()
  const secret = canary('row')
  // PostgreSQL's own error quotes the whole row.
  await server.db.query(
    `alter table ${server.db.schema}.events add constraint no_canaries check (type <> 'a.canary')`,
  )
  const { status, json } = await server.call('POST', '/events', { type: 'a.canary', payload: { secret } })
  expect(status).toBe(500)
  expect(json).toMatchObject({ code: 'internal', error: expect.stringContaining(json.instance) })
  const logged = server.logged()
  expect(logged).toContain('violates check constraint')
  expect(logged).toContain(`"requestId":"${json.instance}"`)
  expect(logged).not.toContain(secret)
  expect(JSON.stringify(json)).not.toMatch(/canary|constraint|stack/)
})

test('what a caller sends cannot forge a line or a request id', async () => {
  const server = await open()
  const forged = `/no%0A{"level":60,"msg":"${canary('line')}"}`
  expect(await server.call('GET', forged)).toMatchObject({ status: 404 })
  const odd = ['a b', 'x'.repeat(65), '"}', ''].map((id) => ({ 'x-request-id': id }))
  for (const headers of odd) {
    const { json } = await server.call('GET', '/events/0', undefined, headers)
    expect(json.instance).toMatch(/^[0-9a-f]{12}-\d+$/)
  }
  const kept = await server.call('GET', '/events/0', undefined, { 'x-request-id': 'mine-1.2_3' })
  expect(kept.json.instance).toBe('mine-1.2_3')
  expect(kept.headers.get('x-request-id')).toBe('mine-1.2_3')
  const lines = server.logged().trim().split('\n')
  expect(lines.map((line) => JSON.parse(line)).filter(({ msg }) => /canary/.test(msg))).toEqual([])
})
