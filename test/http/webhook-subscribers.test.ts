import { expect, test } from 'vitest'
import { verify } from '../../src/webhooks/index.ts'
import { type TestServer, useServers } from '../support/http.ts'
import { openOutage, publishMany, suspended } from '../webhooks/send/outage.ts'
import {
  openDispatching,
  openInbox,
  publish,
  settledTimes,
  subscribe,
  until,
} from '../webhooks/send/setup.ts'

const servers = useServers('webhook_subscribers')

/** As the contract has it. */
const billing = {
  ...{ name: 'billing', url: 'https://billing.example/hooks', event_types: ['invoice.*'], tags: 'eu' },
  ...{ filter: { '/payload/paid': true }, ordering_key: '/payload/invoice_id' },
  ...{ retry_backoff_seconds: [5, 30, 300], timeout_ms: 10000, headers: { 'x-team': 'billing' } },
  ...{ max_concurrency: 10, rate_per_second: 50, on_exhausted: 'skip', format: 'standard', is_active: true },
}

test('the subscriber of the contract is answered with its fields, an id and a secret, and works', async () => {
  const server = await openDispatching(servers)
  const inbox = await openInbox()
  const given = { ...billing, url: inbox.url }
  const { status, json, headers } = await server.call('POST', '/subscribers', given)
  expect(status).toBe(201)
  expect(json).toMatchObject({
    ...given,
    id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/),
    secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
    via: 'webhook',
    status: 'active',
    endpoint: { state: 'open', unreachable_in_a_row: 0 },
  })
  const { secret, ...shown } = json
  const got = await server.call('GET', `/subscribers/${json.id}`)
  expect(got.json).toEqual({ ...shown, headers: { 'x-team': '[hidden]' } })
  expect(got.headers.get('etag')).toBe(headers.get('etag'))

  const invoice = (payload: object, tags = 'eu') => ({ type: 'invoice.paid', tags, payload })
  await server.call('POST', '/events', invoice({ paid: false, invoice_id: 1 }))
  await server.call('POST', '/events', invoice({ paid: true, invoice_id: 2 }, 'us'))
  const { json: event } = await server.call('POST', '/events', invoice({ paid: true, invoice_id: 3 }))
  const [delivered] = await inbox.count(1)
  const sent = delivered?.headers as Record<string, string>
  expect(sent).toMatchObject({
    ...{ 'posthorn-event-id': String(event.id), 'posthorn-ordering-key': '3', 'x-team': 'billing' },
  })
  expect(verify(delivered?.body ?? '', sent, secret)).toBeTruthy()
  await server.drain()
  expect(inbox.all).toHaveLength(1)
})

test('a url and types are enough', async () => {
  const server = await openDispatching(servers)
  const { json } = await server.call('POST', '/subscribers', {
    ...{ url: 'https://billing.example/hooks', event_types: ['invoice.*'] },
  })
  expect(json).toMatchObject({
    ...{ name: expect.stringMatching(/^billing\.example-[0-9a-f]{8}$/), via: 'webhook', format: 'standard' },
    ...{ retry_backoff_seconds: [5, 30, 300], max_retries: 4, timeout_ms: 10_000, on_exhausted: 'skip' },
    ...{ tags: null, filter: null, ordering_key: null, headers: {}, outcomes: {}, max_concurrency: null },
    ...{ rate_per_second: null, is_active: true },
  })
  expect(json.lease_seconds).toBeGreaterThanOrEqual((2 * json.timeout_ms) / 1000)
  for (const missing of ['url', 'event_types']) {
    const given = { url: 'https://billing.example/hooks', event_types: ['a'], [missing]: undefined }
    const refused = await server.call('POST', '/subscribers', given)
    expect(refused.status).toBe(422)
    expect(refused.text).toContain(missing)
  }
})

test('of 64 changes made with the same version one is made', async () => {
  const server = await openDispatching(servers)
  const created = await server.call('POST', '/subscribers', billing)
  const etag = created.headers.get('etag') as string
  const answers = await Promise.all(
    Array.from({ length: 64 }, (_, n) =>
      server.call(
        'PATCH',
        `/subscribers/${created.json.id}`,
        { headers: { 'x-n': String(n) } },
        { 'if-match': etag },
      ),
    ),
  )
  const made = answers.filter(({ status }) => status === 200)
  expect(made).toHaveLength(1)
  expect(answers.filter(({ status }) => status === 412)).toHaveLength(63)
  const { json, headers } = await server.call('GET', `/subscribers/${created.json.id}`)
  expect(json.headers).toEqual(made[0]?.json.headers)
  expect(headers.get('etag')).toBe(made[0]?.headers.get('etag'))
})

test('every change asks for the version if one is given, and a refused one changes nothing', async () => {
  const server = await openDispatching(servers)
  const { json, headers } = await server.call('POST', '/subscribers', billing)
  const path = `/subscribers/${json.id}`
  const old = headers.get('etag') as string
  await server.call('PATCH', path, { timeout_ms: 9_000 }, { 'if-match': old })
  const before = await server.call('GET', path)
  const changes: [string, string, object?][] = [
    ['PATCH', path, { timeout_ms: 8_000 }],
    ['POST', `${path}/pause`],
    ['POST', `${path}/resume`],
    ['POST', `${path}/rotate-secret`],
    ['DELETE', path],
  ]
  for (const [method, to, body] of changes) {
    expect((await server.call(method, to, body, { 'if-match': old })).status, to).toBe(412)
    expect((await server.call(method, to, body, { 'if-match': 'three' })).status, to).toBe(422)
  }
  expect((await server.call('GET', path)).json).toEqual(before.json)
  for (const [method, to, body] of changes) {
    const etag = (await server.call('GET', path)).headers.get('etag') as string
    expect((await server.call(method, to, body, { 'if-match': etag })).status, to).toBeLessThan(300)
  }
  expect((await server.call('GET', path)).status).toBe(404)
})

test('If-Match is a list of tags of which one must be that of now, byte by byte', async () => {
  const server = await openDispatching(servers)
  const { json } = await server.call('POST', '/subscribers', billing)
  const path = `/subscribers/${json.id}`
  const tagNow = async () => (await server.call('GET', path)).headers.get('etag') as string
  const change = (given: string) => server.call('PATCH', path, { max_concurrency: 5 }, { 'if-match': given })
  const matching: ((tag: string) => string)[] = [
    (tag) => tag,
    (tag) => `"0", ${tag}`,
    (tag) => `${tag},"abc"`,
    (tag) => ` , W/"a,b" ,, ${tag} ,`,
    () => '*',
  ]
  for (const given of matching) expect((await change(given(await tagNow()))).status, String(given)).toBe(200)
  const now = await tagNow()
  const others = ['"0"', '"abc"', '""', '"a,b"', `W/${now}`, `"0", W/${now}`, `"0${now.slice(1)}`, '"é"']
  for (const given of others) {
    expect((await change(given)).json, given).toMatchObject({ status: 412, code: 'changed_meanwhile' })
  }
  const odd = ['three', now.slice(1, -1), `${now} ${now}`, `"1`, `w/${now}`, `*, ${now}`, `${now};`, ',', '']
  for (const given of odd) {
    expect((await change(given)).json, given).toMatchObject({
      ...{ status: 422, code: 'bad_field', field: 'If-Match', value: given.trim() },
    })
  }
  expect(await tagNow()).toBe(now)
})

test('a suspended one is active: writing that back leaves the breaker alone, and a resume does not', async () => {
  const server = await openDispatching(servers)
  const outage = await openOutage()
  const { id } = await subscribe(server, outage.url, { max_concurrency: 1 })
  await publishMany(server, 3)
  await suspended(server, id)
  const path = `/subscribers/${id}`
  const { json: before } = await server.call('GET', path)
  expect(before).toMatchObject({ status: 'suspended', is_active: true })
  const { is_active, endpoint } = before
  const kept = { state: 'suspended', suspended_at: endpoint.suspended_at }
  for (const change of [{ is_active }, { is_active, timeout_ms: 9_000 }]) {
    const written = await server.call('PATCH', path, change)
    expect(written.json).toMatchObject({ status: 'suspended', is_active: true, endpoint: kept })
  }
  const active = { status: 'active', is_active: true, endpoint: { state: 'open', suspended_at: null } }
  expect((await server.call('POST', `${path}/resume`)).json).toMatchObject(active)
  const paused = await server.call('PATCH', path, { is_active: false })
  expect(paused.json).toMatchObject({ status: 'paused', is_active: false })
  expect((await server.call('PATCH', path, { is_active: true })).json).toMatchObject(active)
})

test('one that drains is active, and stays as it is when that is written back', async () => {
  const server = await openDispatching(servers)
  const { json } = await server.call('POST', '/subscribers', billing)
  const path = `/subscribers/${json.id}`
  await server.db.query(`update ${server.db.schema}.subscriptions set status = 'draining' where id = $1`, [
    json.id,
  ])
  expect((await server.call('GET', path)).json).toMatchObject({ status: 'draining', is_active: true })
  expect((await server.call('PATCH', path, { is_active: true })).json.status).toBe('draining')
})

test('a change of url, headers and timeout counts for what waits already', async () => {
  const server = await openDispatching(servers)
  const [before, after] = [await openInbox(), await openInbox(() => undefined)]
  const { id } = await subscribe(server, before.url, { is_active: false })
  const event = await publish(server)
  const changed = await server.call('PATCH', `/subscribers/${id}`, {
    ...{ url: after.url, headers: { 'x-new': 'yes' }, timeout_ms: 150, format: 'raw', is_active: true },
  })
  expect(changed.status).toBe(200)
  const [delivered] = await after.count(1)
  expect(delivered).toMatchObject({ headers: { 'x-new': 'yes' }, body: '{}' })
  expect(await settledTimes(server, event, 1)).toMatchObject([
    { errorClass: 'timeout', reason: 'timeout: No answer within 150 ms' },
  ])
  expect(before.all).toEqual([])
})

test('soon after a pause nothing is sent, and after a resume all of it is', async () => {
  const server = await openDispatching(servers)
  const times: number[] = []
  const inbox = await openInbox(() => {
    times.push(performance.now())
    return 204
  })
  const { id } = await subscribe(server, inbox.url, { max_concurrency: 2 })
  const events = Array.from({ length: 400 }, () => ({ type: 'note.made', payload: {} }))
  await server.call('POST', '/events/batch', { events })
  await inbox.count(1)
  const paused = await server.call('POST', `/subscribers/${id}/pause`)
  const pausedAt = performance.now()
  expect(paused.json).toMatchObject({ status: 'paused', is_active: false })
  await publish(server)
  await leasedNothing(server)
  const sent = inbox.all.length
  expect(sent).toBeLessThan(400)
  // A second, on a machine that is not busy: chaos/pause-queues.js holds us to that.
  expect(Math.max(...times) - pausedAt).toBeLessThan(30_000)
  await server.clock.advance(600_000)
  expect(inbox.all).toHaveLength(sent)

  await server.call('POST', `/subscribers/${id}/resume`)
  await inbox.count(401)
  await server.drain()
  expect(new Set(inbox.all.map(({ headers }) => headers['webhook-id'])).size).toBe(401)
  expect(inbox.all).toHaveLength(401)
})

test('what waits for a subscriber that is deleted is cancelled, and stays visible', async () => {
  const schema = 'deleted'
  const server = await openDispatching(servers, { hub: { schema } })
  const inbox = await openInbox()
  const { id } = await subscribe(server, inbox.url, { is_active: false })
  const events = [await publish(server), await publish(server, { ordering_key: 'k' })]
  while (await server.hub.sweep());
  expect((await server.call('DELETE', `/subscribers/${id}`)).status).toBe(204)
  expect((await server.call('GET', `/subscribers/${id}`)).status).toBe(404)
  // One whose upkeep begins now, so that nobody has to wait for the next turn.
  await openDispatching(servers, { hub: { schema, upkeep: true } })
  for (const event of events) {
    const status = async () => (await server.call('GET', `/events/${event}`)).json.status
    await until(async () => (await status()) === 'CANCELLED', `event ${event}`)
  }
  const later = await server.call('POST', '/events', { type: 'note.made', payload: {} })
  expect(later.json.status).toBe('COMPLETED')
  expect(inbox.all).toEqual([])
})

test('a test delivery says how it went, whatever the state of the subscriber, and leaves no trace', async () => {
  const server = await openDispatching(servers)
  let status = 200
  const inbox = await openInbox(() => status)
  const { id, secret } = await subscribe(server, inbox.url, { is_active: false })
  const test = async () => (await server.call('POST', `/subscribers/${id}/test`)).json
  const ok = await test()
  expect(ok).toMatchObject({ delivered: true, status_code: 200, error_class: null, response: { bytes: 0 } })
  const [delivered] = inbox.all
  const headers = delivered?.headers as Record<string, string>
  expect(headers['webhook-id']).toBe(ok.webhook_id)
  expect(verify(delivered?.body ?? '', headers, secret)).toBeTruthy()
  expect(JSON.parse(delivered?.body ?? '')).toMatchObject({ type: 'posthorn.test', data: { test: true } })
  for (status of [500, 404, 410]) {
    expect(await test()).toMatchObject({ delivered: false, status_code: status, error_class: null })
  }
  await server.call('PATCH', `/subscribers/${id}`, { url: 'http://127.0.0.1:1/' })
  expect(await test()).toMatchObject({ delivered: false, status_code: null, error_class: 'refused' })
  const { json } = await server.call('GET', `/subscribers/${id}`)
  expect(json).toMatchObject({ status: 'paused', endpoint: { unreachable_in_a_row: 0, last_error: null } })
  expect((await server.call('GET', '/events')).json.total).toBe(0)
})

test('a schedule without entries allows one attempt', async () => {
  const server = await openDispatching(servers)
  const inbox = await openInbox(() => 500)
  const subscriber = await subscribe(server, inbox.url, { retry_backoff_seconds: [] })
  expect(subscriber).toMatchObject({ retry_backoff_seconds: [], max_retries: 1 })
  const event = await publish(server)
  expect(await settledTimes(server, event, 1)).toMatchObject([{ settlement: 'buried', failures: 1 }])
})

test('a webhook that wants no type is refused, since it would never get anything', async () => {
  const server = await openDispatching(servers)
  const refused = { status: 422, json: { field: 'event_types' } }
  const url = 'https://billing.example/'
  expect(await server.call('POST', '/subscribers', { url, event_types: [] })).toMatchObject(refused)
  const { id } = await subscribe(server, url)
  expect(await server.call('PATCH', `/subscribers/${id}`, { event_types: [] })).toMatchObject(refused)
})

test('what was read of a subscriber can be written back, and changes nothing', async () => {
  const server = await openDispatching(servers)
  const { id: webhook } = await subscribe(server, 'https://billing.example/', {
    headers: { 'x-a': 'secret' },
  })
  const wanted = { via: 'pull', event_types: ['a'] }
  const pull = (await server.call('POST', '/subscribers', { ...wanted, name: 'fixed' })).json.id
  const retry = { kind: 'exponential', baseMs: 1, factor: 2, maxMs: 9, jitter: 0, failuresMax: 7 } as const
  const { id: exponential } = await server.hub.subscribe('a', { name: 'exponential', retry })
  for (const path of [webhook, pull, exponential].map((id) => `/subscribers/${id}`)) {
    const { json: before } = await server.call('GET', path)
    const { id, via, status, created_at, updated_at, endpoint, ...fields } = before
    const { updated_at: _, ...after } = (await server.call('PATCH', path, fields)).json
    expect({ ...after, updated_at }).toEqual(before)
    expect(await server.call('PATCH', path, { ...fields, name: 'another' })).toMatchObject({
      ...{ status: 422, json: { field: 'name', value: 'another' } },
    })
  }
  expect((await server.hub.subscriptions()).find(({ name }) => name === 'exponential')).toMatchObject({
    retry,
  })
})

async function leasedNothing(server: TestServer): Promise<void> {
  await until(async () => {
    const { rows } = await server.db.query(
      `select count(*)::int as leased from ${server.db.schema}.runs where state = 'leased'`,
    )
    return rows[0]?.leased === 0
  }, 'the end of what is under way')
}
