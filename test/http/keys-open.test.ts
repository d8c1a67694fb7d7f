import { type IncomingHttpHeaders, request } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { apiRoutes } from '../../src/http/routes/index.ts'
import { createKey, revokeKey } from '../../src/keys/api-keys.ts'
import { type TestServer, useServers } from '../support/http.ts'

/** While there is no key, whoever is on this machine may do everything, and nobody else anything. */

const servers = useServers('keys_open')
const event = JSON.stringify({ type: 'a.b', payload: null })

interface Ask {
  readonly method?: string
  readonly path?: string
  readonly headers?: Record<string, string>
  readonly body?: string
}

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came
  readonly json: any
}

/** Like a browser's request: fetch would not let us choose Host and Origin. */
function ask({ url }: TestServer, { method = 'GET', path = '/events', headers = {}, body }: Ask) {
  return new Promise<Answer>((resolve, reject) => {
    const sent = request(`${url}${path}`, { method, headers, agent: false }, (response) => {
      text(response).then((all) => {
        const isJson = /json/.test(response.headers['content-type'] ?? '')
        const json = isJson && all !== '' ? JSON.parse(all) : undefined
        resolve({ status: response.statusCode ?? 0, headers: response.headers, json })
      }, reject)
    })
    sent.once('error', reject)
    sent.end(body)
  })
}

const localHosts = [
  ...['localhost', 'localhost:8080', 'LOCALHOST', 'app.localhost:3000', '127.0.0.1', '127.0.0.1:65535'],
  ...['127.1.2.3', '[::1]', '[::1]:8080'],
]
const foreignHosts = [
  ...['evil.example', 'evil.example:8080', 'localhost.evil.example', '127.0.0.1.evil.example', '10.0.0.7'],
  ...[
    '0.0.0.0',
    '169.254.169.254',
    '[fe80::1]',
    '[::ffff:10.0.0.7]',
    'localhostx',
    '%',
    'localhost,evil.example',
  ],
]

test('only who calls the server by a name of this machine is answered', async () => {
  const server = await servers.open()
  for (const host of localHosts) {
    expect(await ask(server, { headers: { host } }), host).toMatchObject({ status: 200 })
  }
  for (const host of foreignHosts) {
    const answer = await ask(server, { headers: { host } })
    expect(answer, host).toMatchObject({
      status: 403,
      json: { code: 'foreign_request', header: 'Host', value: host },
    })
  }
})

test('a request from another machine is refused, by whatever name it calls the server', async () => {
  const { server } = await servers.open()
  for (const remoteAddress of ['10.0.0.7', '::ffff:10.0.0.7', 'fe80::1', '192.168.0.1']) {
    const { statusCode, body } = await server.app.inject({
      ...{ url: '/events', remoteAddress, headers: { host: 'localhost' } },
    })
    expect(statusCode, remoteAddress).toBe(403)
    expect(JSON.parse(body)).toMatchObject({ code: 'foreign_request', value: remoteAddress })
  }
  for (const remoteAddress of ['127.0.0.1', '::1', '::ffff:127.0.0.1']) {
    const { statusCode } = await server.app.inject({
      ...{ url: '/events', remoteAddress, headers: { host: 'localhost' } },
    })
    expect(statusCode, remoteAddress).toBe(200)
  }
})

test('who calls it by no name at all is not', async () => {
  const server = await servers.open()
  for (const head of ['GET /events HTTP/1.0', 'GET /events HTTP/1.1\r\nHost:\r\nConnection: close']) {
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
    socket.write(`${head}\r\n\r\n`)
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 403 Forbidden\r\n/)
  }
})

const pages: [headers: Record<string, string>, status: number][] = [
  [{ origin: 'http://localhost:3000' }, 202],
  [{ origin: 'http://127.0.0.1' }, 202],
  [{ origin: 'http://[::1]:8080' }, 202],
  [{ 'sec-fetch-site': 'same-origin' }, 202],
  [{ 'sec-fetch-site': 'none' }, 202],
  [{ origin: 'https://evil.example' }, 403],
  [{ origin: 'http://localhost.evil.example' }, 403],
  [{ origin: 'null' }, 403],
  [{ origin: 'file://' }, 403],
  [{ 'sec-fetch-site': 'cross-site' }, 403],
  [{ origin: 'http://localhost:3000', 'sec-fetch-site': 'cross-site' }, 403],
]

test('a web page from elsewhere cannot make the browser of somebody here publish', async () => {
  const server = await servers.open()
  // What a form of any page can send without asking first.
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  for (const [headers, status] of pages) {
    const before = (await server.hub.listEvents()).total
    const answer = await ask(server, { method: 'POST', headers: { ...form, ...headers }, body: event })
    expect(answer.status, JSON.stringify(headers)).toBe(status)
    expect((await server.hub.listEvents()).total - before).toBe(status === 202 ? 1 : 0)
    if (status === 202) continue
    const error = expect.stringContaining('create a key with')
    expect(answer.json).toMatchObject({ code: 'foreign_request', error })
    expect(answer.headers['access-control-allow-origin']).toBeUndefined()
  }
})

const proxyHeaders = [
  ...[
    'Forwarded',
    'Via',
    'X-Forwarded-For',
    'X-Forwarded-Host',
    'X-Forwarded-Proto',
    'X-Forwarded',
    'X-Real-IP',
    'X-Remote-IP',
    'X-Originating-IP',
    'X-Vercel-Forwarded-For',
    'X-Nf-Client-Connection-Ip',
    'CF-Ray',
  ],
  ...[
    'CF-Connecting-IP',
    'True-Client-IP',
    'X-Client-IP',
    'X-Cluster-Client-IP',
    'Fastly-Client-IP',
    'CDN-Loop',
    'Forwarded-For',
  ],
  ...['X-Original-Forwarded-For', 'X-Envoy-External-Address', 'X-Azure-ClientIP', 'X-AppEngine-User-IP'],
]

test('a request that a proxy on this machine has handed on is refused, and told to create a key', async () => {
  const server = await servers.open({ freshMs: 0 })
  for (const header of proxyHeaders) {
    // Also when the proxy says that it was somebody here: anybody can say so.
    const headers = { host: 'localhost', [header]: '127.0.0.1' }
    const answer = await ask(server, { method: 'POST', headers, body: event })
    const error = expect.stringContaining('create a key with posthorn keys create')
    expect(answer, header).toMatchObject({
      status: 403,
      json: { code: 'foreign_request', header: header.toLowerCase(), value: '127.0.0.1', error },
    })
  }
  expect((await server.hub.listEvents()).total).toBe(0)
  const { text: key } = await createKey(server.db, { name: 'app', scopes: ['publish'], actor: 'test' })
  const headers = { authorization: `Bearer ${key}`, 'x-forwarded-for': '203.0.113.7', via: '1.1 proxy' }
  expect(await ask(server, { method: 'POST', headers, body: event })).toMatchObject({ status: 202 })
})

test('every route that needs a scope refuses a foreign Host; probes and docs do not care', async () => {
  const server = await servers.open()
  for (const { method, path, name, scope } of apiRoutes(server.hub, {
    isDraining: () => false,
    version: 'test',
  })) {
    const filled = path.replace(/\{\w+\}/g, '4242')
    const { status } = await ask(server, { method, path: filled, headers: { host: 'evil.example' } })
    if (scope === null) expect(status, name).toBe(200)
    else expect(status, name).toBe(403)
  }
})

test('a browser that asks whether another site may call is not told yes', async () => {
  const server = await servers.open()
  const headers = { origin: 'https://evil.example', 'access-control-request-method': 'POST' }
  const answer = await ask(server, { method: 'OPTIONS', headers })
  expect(answer.status).toBe(405)
  expect(Object.keys(answer.headers).filter((name) => name.startsWith('access-control'))).toEqual([])
})

test('from the first key on every request needs one, and revoking the last one opens nothing', async () => {
  const server = await servers.open({ freshMs: 0 })
  expect(await ask(server, {})).toMatchObject({ status: 200 })
  const { id, text: key } = await createKey(server.db, { name: 'first', scopes: ['read'], actor: 'test' })
  expect(await ask(server, {})).toMatchObject({ status: 401, json: { code: 'unauthorized' } })
  const headers = { authorization: `Bearer ${key}` }
  expect(await ask(server, { headers })).toMatchObject({ status: 200 })
  await revokeKey(server.db, { id, actor: 'test' })
  expect(await ask(server, { headers })).toMatchObject({ status: 401 })
  expect(await ask(server, {})).toMatchObject({ status: 401 })
})

test('with a key it does not matter by which name the server was called, or from which page', async () => {
  const server = await servers.open()
  const { text: key } = await createKey(server.db, { name: 'app', scopes: ['read'], actor: 'test' })
  const page = { host: 'events.example', origin: 'https://app.example', 'sec-fetch-site': 'cross-site' }
  expect(await ask(server, { headers: { ...page, authorization: `Bearer ${key}` } })).toMatchObject({
    status: 200,
  })
  expect(await ask(server, { headers: page })).toMatchObject({ status: 401 })
})
