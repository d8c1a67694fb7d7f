import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'
import { eventually } from '../support/signal.ts'
import {
  deadLettersOf,
  openDispatching,
  openInbox,
  publish,
  secretKey,
  subscribe,
  until,
} from '../webhooks/send/setup.ts'

/** A subscriber's own headers let it in at its receiver: whoever may read or manage need not be able to do the same. */

const servers = useServers('webhook_headers')
const hidden = '[hidden]'
const secrets = { authorization: 'Bearer opensesame-1', 'x-auth': 'opensesame-2', 'x-plain': 'opensesame-3' }

test('values of headers are stored in clear nowhere and shown to nobody after creation, but for public ones', async () => {
  const server = await openDispatching(servers)
  const inbox = await openInbox(() => 400)
  const given = { headers: { ...secrets, 'X-Team': 'billing' }, public_headers: ['X-Team'] }
  const created = await subscribe(server, inbox.url, given)
  expect(created).toMatchObject({ headers: { ...secrets, 'x-team': 'billing' }, public_headers: ['x-team'] })
  const path = `/subscribers/${created.id}`
  await server.call('PATCH', path, { headers: { 'x-auth': 'opensesame-4' }, timeout_ms: 5_000 })
  await server.call('POST', `${path}/test`)
  const event = await publish(server)
  const sent = await inbox.count(2)
  for (const { headers } of sent) {
    expect(headers).toMatchObject({ ...secrets, 'x-auth': 'opensesame-4', 'x-team': 'billing' })
  }
  await until(async () => (await deadLettersOf(server, event)).length === 1, 'a dead letter')

  const { deliveries } = (await server.call('GET', `/deliveries?event_id=${event}`)).json
  const delivery = await server.call('GET', `/deliveries/${deliveries[0].id}`)
  const masked = { authorization: hidden, 'x-auth': hidden, 'x-plain': hidden, 'x-team': 'billing' }
  expect(delivery.json.attempts[0].request.headers).toMatchObject(masked)
  const letter = (await server.call('GET', '/dlq')).json.dead_letters[0]
  const told = [
    delivery,
    await server.call('GET', '/subscribers'),
    await server.call('GET', path),
    await server.call('PATCH', path, { timeout_ms: 6_000 }),
    await server.call('POST', `${path}/pause`),
    await server.call('GET', `/dlq/${letter.id}`),
  ]
  for (const { text } of told) expect(text).not.toContain('opensesame')
  expect(told[2]?.json).toMatchObject({ headers: masked, public_headers: ['x-team'] })
  const stored = await everythingStored(server)
  expect(stored).toContain('subscriber.change')
  expect(stored).not.toContain('opensesame')
})

test('a receiver that repeats the request shows nobody the hidden values, and its cookies stay hidden', async () => {
  const server = await openDispatching(servers)
  const inbox = await openInbox(({ headers, url }, response) => {
    const { authorization = '', 'x-auth': auth = '' } = headers
    const echo = JSON.stringify({ url, headers, token: authorization.replace('Bearer ', '') })
    response
      .writeHead(400, { 'set-cookie': 'session=crumble', 'x-echo': auth, 'x-team': 'billing' })
      .end(echo)
    return undefined
  })
  const quoted = { 'x-quoted': 'name="opensesame-5"' }
  const given = { headers: { ...secrets, ...quoted, 'x-team': 'billing' }, public_headers: ['x-team'] }
  const { id } = await subscribe(server, `${inbox.url}?sign=knock%2Fknock&v=2`, given)
  const tested = await server.call('POST', `/subscribers/${id}/test`)
  const event = await publish(server)
  await until(async () => (await deadLettersOf(server, event)).length === 1, 'a dead letter')
  expect(inbox.all[1]?.headers).toMatchObject({ ...secrets, ...quoted })

  const { deliveries } = (await server.call('GET', `/deliveries?event_id=${event}`)).json
  const delivery = await server.call('GET', `/deliveries/${deliveries[0].id}`)
  const signature = String(inbox.all[1]?.headers['webhook-signature'])
  for (const { headers, body } of [tested.json.response, delivery.json.attempts[0].response]) {
    expect(headers).toMatchObject({ 'set-cookie': hidden, 'x-echo': hidden, 'x-team': 'billing' })
    expect(JSON.parse(body)).toMatchObject({
      headers: { authorization: hidden, 'x-quoted': hidden, 'x-team': 'billing' },
      token: hidden,
    })
  }
  for (const text of [tested.text, delivery.text, await everythingStored(server)]) {
    for (const secret of ['opensesame', 'crumble', signature]) expect(text).not.toContain(secret)
  }
  for (const { text } of [tested, delivery]) expect(text).not.toContain('knock')
})

test('a hidden value that the cut of a long answer goes through shows none of its beginning', async () => {
  const server = await openDispatching(servers)
  const value = 'opensesame/and&more'
  for (const echo of [value, encodeURIComponent(value), value.replace('&', '&amp;')]) {
    for (const kept of [4, 10, 12, echo.length - 1]) {
      const inbox = await openInbox((_, response) => {
        response.writeHead(400).end(`${'-'.repeat(16_384 - kept)}${echo} and so on`)
        return undefined
      })
      const { id } = await subscribe(server, inbox.url, { headers: { 'x-auth': value } })
      const { json } = await server.call('POST', `/subscribers/${id}/test`)
      expect(json.response.body.replace(/^-+/, ''), `${kept} of ${echo}`).toBe(hidden)
    }
  }
})

test('a hidden value that the answer repeats with escapes is hidden all the same', async () => {
  const server = await openDispatching(servers)
  const value = `open "sesame" <a href='/?a=1&b=2'>+`
  const html = value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  const echoes = [
    html.replaceAll('"', '&quot;').replaceAll("'", '&#39;'),
    html.replaceAll('"', '&#34;').replaceAll("'", '&#x27;'),
    html.replaceAll('"', '&QUOT;').replaceAll("'", '&#X27;').replaceAll(' ', '&#0032;'),
    encodeURIComponent(value),
    encodeURIComponent(value).toLowerCase(),
    new URLSearchParams({ value }).toString(),
    encodeURIComponent(encodeURIComponent(value)),
    JSON.stringify(value),
    JSON.stringify(value).replaceAll('<', '\\u003c').replaceAll('/', '\\/').replaceAll('&', '\\u0026'),
    JSON.stringify(JSON.stringify(value)),
    JSON.stringify(html.replaceAll('"', '&quot;')),
  ]
  for (const echo of echoes) {
    const inbox = await openInbox((_, response) => {
      response.writeHead(400, { 'x-echo': `is ${echo} ok?` }).end(`is ${echo} ok?`)
      return undefined
    })
    const { id } = await subscribe(server, inbox.url, { headers: { 'x-auth': value } })
    const { json } = await server.call('POST', `/subscribers/${id}/test`)
    for (const shown of [json.response.body, json.response.headers['x-echo']]) {
      expect(shown, echo).toMatch(/^is .{0,10}\[hidden\].{0,3} ok\?$/)
      expect(shown, echo).not.toContain('sesame')
    }
  }
})

test('a change that leaves a header out keeps it, and null takes one away', async () => {
  const server = await openDispatching(servers)
  const inbox = await openInbox()
  const { id } = await subscribe(server, inbox.url, { headers: secrets })
  const path = `/subscribers/${id}`
  const { json: read } = await server.call('GET', path)
  const change = async (headers: object) => (await server.call('PATCH', path, { headers })).json.headers
  expect(await change({ 'x-new': 'n' })).toEqual({ ...read.headers, 'x-new': hidden })
  expect(await change({})).toEqual({ ...read.headers, 'x-new': hidden })
  expect(await change({ 'X-Plain': null, 'x-never': null })).toEqual({
    ...{ authorization: hidden, 'x-auth': hidden, 'x-new': hidden },
  })
  // What was read is written back, with one of them changed.
  expect(await change({ authorization: hidden, 'x-auth': 'other' })).toMatchObject({ 'x-auth': hidden })
  // The dispatcher hears of a change a moment after the answer.
  let sent = 0
  await eventually('the new header is sent', async () => {
    await publish(server)
    const delivered = (await inbox.count(++sent)).at(-1)
    const { authorization, 'x-auth': auth, 'x-plain': plain, 'x-new': added } = delivered?.headers ?? {}
    if (auth !== 'other') return false
    expect([authorization, plain, added]).toEqual([secrets.authorization, undefined, 'n'])
    return true
  })
})

test('a header value that is refused is not quoted in the answer', async () => {
  const server = await openDispatching(servers)
  const common = { url: 'https://billing.example/', event_types: ['note.*'] }
  const long = `opensesame${'x'.repeat(4_096)}`
  for (const headers of [
    { 'x-auth': long },
    'x-auth: opensesame',
    ['opensesame'],
    { 'x-auth': ['opensesame'] },
  ]) {
    const refused = await server.call('POST', '/subscribers', { ...common, headers })
    expect(refused).toMatchObject({ status: 422, json: { value: 'something else' } })
    expect(refused.text).not.toContain('opensesame')
  }
})

test('a hidden value does not become public by naming it', async () => {
  const server = await openDispatching(servers)
  const { id } = await subscribe(server, 'https://billing.example/', { headers: secrets })
  const path = `/subscribers/${id}`
  const naming = await server.call('PATCH', path, { public_headers: ['x-auth'] })
  expect(naming).toMatchObject({ status: 422, json: { field: 'public_headers' } })
  expect(naming.text).not.toContain('opensesame')
  for (const refused of [
    { public_headers: ['x-nobody'] },
    { headers: { 'x-nobody': hidden } },
    { headers: { 'x-auth': hidden }, public_headers: ['x-auth'] },
  ]) {
    expect((await server.call('PATCH', path, refused)).status, JSON.stringify(refused)).toBe(422)
  }
  const shown = await server.call('PATCH', path, { headers: { 'x-auth': 'v' }, public_headers: ['x-auth'] })
  expect(shown.json).toMatchObject({
    headers: { 'x-auth': 'v', 'x-plain': hidden },
    public_headers: ['x-auth'],
  })
  const changed = await server.call('PATCH', path, { headers: { 'x-auth': 'w' } })
  expect(changed.json.headers['x-auth']).toBe('w')
  const covered = await server.call('PATCH', path, { public_headers: [] })
  expect(covered.json).toMatchObject({ headers: { 'x-auth': hidden }, public_headers: [] })
})

test('a hidden header is not sent to a receiver that a change of the url names', async () => {
  const server = await openDispatching(servers)
  const [owner, stranger] = [await openInbox(), await openInbox()]
  const given = { headers: { ...secrets, 'x-team': 'billing' }, public_headers: ['x-team'] }
  const { id } = await subscribe(server, owner.url, given)
  const path = `/subscribers/${id}`
  const move = (headers?: object) => server.call('PATCH', path, { url: stranger.url, headers })
  const refusals: [headers: object | undefined, field: string][] = [
    [undefined, 'headers.authorization'],
    [{ authorization: hidden, 'x-auth': 'a', 'x-plain': null }, 'headers.authorization'],
    [{ Authorization: 'mine', 'x-auth': null }, 'headers.x-plain'],
  ]
  for (const [headers, field] of refusals) {
    expect(await move(headers)).toMatchObject({ status: 422, json: { code: 'bad_field', field } })
  }
  await server.call('POST', `${path}/test`)
  expect([owner.all.length, stranger.all.length]).toEqual([1, 0])
  const sameOrigin = await server.call('PATCH', path, { url: `${owner.url}/other?v=2` })
  expect(sameOrigin).toMatchObject({ status: 200, json: { headers: { authorization: hidden } } })

  const moved = await move({ authorization: 'mine', 'X-Auth': null, 'x-plain': null })
  expect(moved).toMatchObject({ status: 200, json: { headers: { authorization: hidden } } })
  await server.call('POST', `${path}/test`)
  expect(stranger.all[0]?.headers).toMatchObject({ authorization: 'mine', 'x-team': 'billing' })
})

test('with two keys headers are sealed anew with the first, and then the second can go', async () => {
  const schema = 'two_keys_headers'
  const inbox = await openInbox()
  const first = await openDispatching(servers, { hub: { schema, dispatcher: false } })
  await subscribe(first, inbox.url, { headers: secrets })
  const sealed = async () =>
    (
      await first.db.query(
        `select sealed from ${schema}.endpoint_secrets where header is not null order by id`,
      )
    ).rows
  const before = await sealed()
  expect(before).toHaveLength(3)
  const next = randomBytes(32).toString('base64')
  const both = await openDispatching(servers, { hub: { schema, secretKey: `${next},${secretKey}` } })
  const after = await sealed()
  for (const [n, row] of before.entries()) expect(after[n]).not.toEqual(row)
  await both.hub.stop()
  const alone = await openDispatching(servers, { hub: { schema, secretKey: next } })
  await publish(alone)
  const [delivered] = await inbox.count(1)
  expect(delivered?.headers).toMatchObject(secrets)
})

test('without a key for secrets no header is sealed, and all else can be changed', async () => {
  const schema = 'no_key_headers'
  const inbox = await openInbox()
  const first = await openDispatching(servers, { hub: { schema } })
  const { id } = await subscribe(first, inbox.url, { headers: secrets })
  const keyless = await servers.open({ hub: { schema, allowCidrs: '127.0.0.0/8' } })
  const refused = await keyless.call('PATCH', `/subscribers/${id}`, { headers: { 'x-new': 'n' } })
  expect(refused).toMatchObject({ status: 409, json: { code: 'secret_key_missing' } })
  const others = { timeout_ms: 4_000, headers: { 'x-plain': null } }
  const changed = await keyless.call('PATCH', `/subscribers/${id}`, others)
  expect(changed.json.headers).toEqual({ authorization: hidden, 'x-auth': hidden })
  await publish(first)
  const [delivered] = await inbox.count(1)
  expect(delivered?.headers).toMatchObject({ 'x-auth': secrets['x-auth'] })
})

test('a header that cannot be opened holds back its own subscriber only, and nothing is sent without it', async () => {
  const server = await openDispatching(servers)
  const [broken, whole] = [await openInbox(), await openInbox()]
  const { id } = await subscribe(server, broken.url, { headers: secrets, is_active: false })
  await subscribe(server, whole.url)
  await server.db.query(
    `update ${server.db.schema}.endpoint_secrets set id = gen_random_uuid() where header = 'x-auth'`,
  )
  await server.call('POST', `/subscribers/${id}/resume`)
  await publish(server)
  await whole.count(1)
  const tested = await server.call('POST', `/subscribers/${id}/test`)
  expect(tested).toMatchObject({ status: 409, json: { code: 'secret_key_wrong' } })
  expect(broken.all).toEqual([])
})

/** All rows of the tables that could hold a header, as text. */
async function everythingStored({ db }: TestServer): Promise<string> {
  const tables = [
    'admin_log',
    'endpoints',
    'endpoint_secrets',
    'subscriptions',
    'exchanges',
    'audit',
    'dead_letters',
  ]
  const texts = tables.map(async (table) => {
    const { rows } = await db.query(`select to_json(t)::text as row from ${db.schema}.${table} t`)
    expect(rows.length, table).toBeGreaterThan(0)
    return rows.map(({ row }) => row).join('\n')
  })
  return (await Promise.all(texts)).join('\n')
}
