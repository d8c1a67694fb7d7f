import { expect, test } from 'vitest'
import { newKey, type Scope, scopeNames } from '../../src/domain/api-key.ts'
import type { Route } from '../../src/http/route.ts'
import { apiRoutes } from '../../src/http/routes/index.ts'
import { createKey, revokeKey } from '../../src/keys/api-keys.ts'
import { type TestServer, useServers } from '../support/http.ts'

/** Who gets in with which key, on every route there is: a new one is covered by itself. */

const servers = useServers('keys')
const adminKey = 'the key that starts a container'
const hourMs = 3_600_000

const routesOf = ({ hub }: TestServer): Route[] =>
  apiRoutes(hub, { isDraining: () => false, version: 'test' })
const withKey = (text: string) => ({ authorization: `Bearer ${text}` })

async function keyOf(server: TestServer, scopes: readonly string[], more: { ratePerSecond?: number } = {}) {
  return createKey(server.db, { name: scopes.join(' and '), scopes, actor: 'test', ...more })
}

/** A request that finds nothing to do, if it is let in at all. */
function ask(server: TestServer, { method, path }: Route, headers: Record<string, string>) {
  const id = path.startsWith('/events') ? '4242' : '00000000-0000-7000-8000-000000000000'
  return server.call(method, path.replace(/\{\w+\}/g, id), undefined, headers)
}

/** What each route answers: 401, 403, or `in` for anything that only somebody who got in can be told. */
async function verdicts(server: TestServer, headers: Record<string, string>) {
  const answers = routesOf(server).map(async (route) => {
    const { status } = await ask(server, route, headers)
    // A busy machine may have a server that says that it is not ready.
    if (!['ready', 'healthy'].includes(route.name)) expect(status, route.name).toBeLessThan(500)
    return [route.name, status === 401 || status === 403 ? status : 'in'] as const
  })
  return Object.fromEntries(await Promise.all(answers))
}

/** The same, as it should be. */
const expected = (server: TestServer, verdict: (scope: Scope) => 401 | 403 | 'in') =>
  Object.fromEntries(
    routesOf(server).map(({ name, scope }) => [name, scope === null ? 'in' : verdict(scope)]),
  )

test.each(scopeNames)(
  'a key with the scope %s opens the routes of that scope and no others',
  async (held) => {
    const server = await servers.open()
    const { text } = await keyOf(server, [held])
    expect(await verdicts(server, withKey(text))).toEqual(
      expected(server, (scope) => (held === 'admin' || held === scope ? 'in' : 403)),
    )
  },
)

test('a key with two scopes opens the routes of both', async () => {
  const server = await servers.open()
  const { text } = await keyOf(server, ['publish', 'read'])
  expect(await verdicts(server, withKey(text))).toEqual(
    expected(server, (scope) => (scope === 'publish' || scope === 'read' ? 'in' : 403)),
  )
})

test('every route that has a scope asks for a key, and takes no wrong, malformed, revoked or expired one', async () => {
  const server = await servers.open({ freshMs: 0 })
  const good = await keyOf(server, ['admin'])
  const revoked = await keyOf(server, ['admin'])
  await revokeKey(server.db, { id: revoked.id, actor: 'test' })
  const { rows } = await server.db.query<{ at: Date }>(
    `select ${server.db.schema}.clock() + interval '1 h' as at`,
  )
  const expired = await createKey(server.db, {
    ...{ name: 'for an hour', scopes: ['admin'], actor: 'test', expiresAt: rows[0]?.at as Date },
  })
  const allIn = expected(server, () => 'in')
  for (const key of [good, expired]) expect(await verdicts(server, withKey(key.text))).toEqual(allIn)
  await server.clock.advance(hourMs)

  const stranger = newKey()
  const none = expected(server, () => 401)
  const wrong: Record<string, Record<string, string>> = {
    'no key': {},
    'an empty header': { authorization: '' },
    'another scheme': { authorization: `Basic ${Buffer.from(`admin:${good.text}`).toString('base64')}` },
    'the key without a scheme': { authorization: good.text },
    'the key as a cookie': { cookie: `authorization=${good.text}`, 'x-api-key': good.text },
    'a key that never was': withKey(stranger.text),
    'the secret of another key': withKey(`ph_${good.id}_${stranger.secret}`),
    'the id alone': withKey(good.id),
    'half a key': withKey(good.text.slice(0, -1)),
    'a key and more': withKey(`${good.text}x`),
    'two keys': withKey(`${good.text},${good.text}`),
    'a very long one': withKey(`ph_${'x'.repeat(8_000)}`),
    'a revoked key': withKey(revoked.text),
    'an expired key': withKey(expired.text),
  }
  for (const [what, headers] of Object.entries(wrong)) {
    expect(await verdicts(server, headers), what).toEqual(none)
  }
  expect(await verdicts(server, withKey(good.text))).toEqual(allIn)
})

test('a wrong key learns nothing: whatever is wrong with it, the answer is the same to the byte', async () => {
  const server = await servers.open()
  const { id, text } = await keyOf(server, ['read'])
  const revoked = await keyOf(server, ['read'])
  await revokeKey(server.db, { id: revoked.id, actor: 'test' })
  const stranger = newKey()
  const answers = await Promise.all(
    [`ph_${id}_${stranger.secret}`, stranger.text, revoked.text, text.slice(1), 'x', ''].map((key) =>
      server.call('GET', '/events/1', undefined, { ...withKey(key), 'x-request-id': 'the-same' }),
    ),
  )
  const [first] = answers
  expect(first).toMatchObject({ status: 401, json: { code: 'unauthorized', status: 401 } })
  expect(first?.headers.get('www-authenticate')).toBe('Bearer')
  expect(first?.headers.get('ratelimit')).toBeNull()
  expect(new Set(answers.map((answer) => answer.text)).size).toBe(1)
})

test('a key that lacks the scope is told which one, before anything of the request is read', async () => {
  const server = await servers.open()
  const { id, text } = await keyOf(server, ['consume'])
  const broken = await server.call('POST', '/events', 'no JSON at all', withKey(text))
  expect(broken).toMatchObject({ status: 403, json: { code: 'forbidden', scope: 'publish', key: id } })
  expect(await server.call('GET', '/events/4242', undefined, withKey(text))).toMatchObject({ status: 403 })
})

test('the admin key of the environment opens everything, and nothing is open without a key', async () => {
  const server = await servers.open({ adminKey })
  expect(await verdicts(server, withKey(adminKey))).toEqual(expected(server, () => 'in'))
  expect(await verdicts(server, {})).toEqual(expected(server, () => 401))
  expect(await verdicts(server, withKey(`${adminKey}!`))).toEqual(expected(server, () => 401))
  const { text } = await keyOf(server, ['read'])
  expect(await server.call('GET', '/events', undefined, withKey(text))).toMatchObject({ status: 200 })
})

test('a revoked key is refused as soon as what is remembered of it is too old', async () => {
  const server = await servers.open({ freshMs: 0 })
  const { id, text } = await keyOf(server, ['read'])
  expect(await server.call('GET', '/events', undefined, withKey(text))).toMatchObject({ status: 200 })
  await revokeKey(server.db, { id, actor: 'test' })
  expect(await server.call('GET', '/events', undefined, withKey(text))).toMatchObject({ status: 401 })
})

test('a key over its rate gets 429 and is told when to come back; others are not held up', async () => {
  const server = await servers.open()
  const slow = await keyOf(server, ['publish'], { ratePerSecond: 5 })
  const fast = await keyOf(server, ['publish'])
  const publish = ({ text }: { text: string }) =>
    server.call('POST', '/events', { type: 'a.b', payload: null }, withKey(text))
  const answers = await Promise.all(Array.from({ length: 40 }, () => [publish(slow), publish(fast)]).flat())
  const ofSlow = answers.filter((_, place) => place % 2 === 0)
  const ofFast = answers.filter((_, place) => place % 2 === 1)
  expect(new Set(ofFast.map(({ status }) => status))).toEqual(new Set([202]))

  const refused = ofSlow.filter(({ status }) => status === 429)
  const accepted = ofSlow.filter(({ status }) => status === 202)
  expect(refused.length + accepted.length).toBe(40)
  expect(accepted.length).toBeGreaterThanOrEqual(5)
  expect(refused.length).toBeGreaterThan(0)
  for (const { headers, json } of refused) {
    expect(json).toMatchObject({ code: 'rate_limited', key: slow.id, per_second: 5, retry_after_seconds: 1 })
    expect(headers.get('retry-after')).toBe('1')
    expect(headers.get('ratelimit')).toBe('"key";r=0;t=1')
    expect(headers.get('ratelimit-policy')).toBe('"key";q=5;w=1')
  }
  expect(accepted[0]?.headers.get('ratelimit')).toMatch(/^"key";r=\d;t=1$/)
  expect(ofFast[0]?.headers.get('ratelimit-policy')).toBe('"key";q=10000;w=1')
  const { total } = await server.hub.listEvents()
  expect(total).toBe(40 + accepted.length)
})

test('a rate below one a second is told as one request in more seconds', async () => {
  const server = await servers.open()
  const { text } = await keyOf(server, ['read'], { ratePerSecond: 0.1 })
  const first = await server.call('GET', '/events', undefined, withKey(text))
  expect(first.status).toBe(200)
  expect(first.headers.get('ratelimit-policy')).toBe('"key";q=1;w=10')
  const second = await server.call('GET', '/events', undefined, withKey(text))
  expect(second).toMatchObject({ status: 429, json: { per_second: 0.1 } })
  expect(Number(second.headers.get('retry-after'))).toBeGreaterThan(1)
})
