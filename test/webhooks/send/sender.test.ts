import { once } from 'node:events'
import { createServer } from 'node:net'
import { describe, expect, test, vi } from 'vitest'
import { canary, errorClassOf, httpReceiver, listening, localSender, post, rawReceiver } from './receiver.ts'

describe('an answer', () => {
  test('comes with its status, headers and body, and how long each step took', async () => {
    const { url, port } = await httpReceiver((request, response, body) => {
      const { host, 'accept-encoding': encoding, 'x-own': own, 'content-length': length } = request.headers
      response.setHeader('x-seen', JSON.stringify({ method: request.method, path: request.url, host }))
      response.setHeader('set-cookie', ['a=1', 'b=2'])
      response.end(JSON.stringify({ encoding, own, length, body }))
    })
    const { result, response, timings } = await post(localSender(), `${url}?q=1`, {
      headers: { 'X-Own': 'yes', Host: 'evil.example', 'Accept-Encoding': 'gzip', 'Content-Length': '3' },
    })
    expect(result).toEqual({ kind: 'answered', status: 200, retryAfterMs: null })
    expect(JSON.parse(response?.headers['x-seen'] ?? '')).toEqual({
      method: 'POST',
      path: '/hook?q=1',
      host: `127.0.0.1:${port}`,
    })
    expect(response?.headers['set-cookie']).toBe('a=1, b=2')
    expect(JSON.parse(String(response?.body))).toEqual({
      encoding: 'identity',
      own: 'yes',
      length: '7',
      body: '{"a":1}',
    })
    expect(response?.bytes).toBe(response?.body.length)
    expect(Object.keys(timings).sort()).toEqual(['connectMs', 'dnsMs', 'firstByteMs', 'totalMs'])
    for (const ms of Object.values(timings)) expect(ms).toBeGreaterThanOrEqual(0)
  })

  test.each([204, 400, 404, 410, 429, 500, 503])('%d is an answer', async (status) => {
    const { url } = await httpReceiver((_, response) => response.writeHead(status).end())
    expect((await post(localSender(), url)).result).toMatchObject({ kind: 'answered', status })
  })

  test('an empty body can be sent', async () => {
    const { url } = await httpReceiver((_, response, body) => response.end(`${body.length} bytes`))
    const { response } = await post(localSender(), url, { body: Buffer.alloc(0) })
    expect(String(response?.body)).toBe('0 bytes')
  })

  test.each([
    ['120', 120_000],
    ['-5', null],
    ['1e12', null],
    ['soon', null],
    ['99999999999', 86_400_000],
    ['Wed, 21 Oct 2015 07:30:00 GMT', 120_000],
  ])('Retry-After: %s', async (value, retryAfterMs) => {
    const { url } = await httpReceiver((_, response) => {
      response.sendDate = false
      response.writeHead(503, { 'retry-after': value, date: 'Wed, 21 Oct 2015 07:28:00 GMT' }).end()
    })
    expect((await post(localSender(), url)).result).toEqual({ kind: 'answered', status: 503, retryAfterMs })
  })

  test.each([301, 302, 303, 307, 308])('%d leads nowhere', async (status) => {
    const elsewhere = await canary()
    const { url } = await httpReceiver((_, response) =>
      response.writeHead(status, { location: elsewhere.url }).end(),
    )
    const { result, response } = await post(localSender(), url)
    expect(result).toMatchObject({ kind: 'answered', status })
    expect(response?.headers.location).toBe(elsewhere.url)
    expect(elsewhere.sockets).toHaveLength(0)
  })

  test('proxies of the environment are ignored', async () => {
    const proxy = await canary()
    for (const name of ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'ALL_PROXY']) vi.stubEnv(name, proxy.url)
    vi.stubEnv('NODE_USE_ENV_PROXY', '1')
    const { url } = await httpReceiver((_, response) => response.end())
    expect(errorClassOf(await post(localSender(), url))).toBe('answered 200')
    expect(proxy.sockets).toHaveLength(0)
    vi.unstubAllEnvs()
  })
})

describe('a failure has a class', () => {
  test('refused: nobody listens', async () => {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    server.close()
    const sent = await post(localSender(), `http://127.0.0.1:${port}/`)
    expect(sent).toMatchObject({ result: { kind: 'failed', errorClass: 'refused' }, response: null })
    expect(sent.timings.connectMs).toBeGreaterThan(0)
  })

  test('reset: the connection is cut before an answer', async () => {
    const { url, sockets } = await rawReceiver((socket) => socket.resetAndDestroy())
    expect(errorClassOf(await post(localSender(), url))).toBe('reset')
    expect(sockets).toHaveLength(1)
  })

  test('reset: the connection is closed before an answer, or amid its head', async () => {
    const closing = await rawReceiver((socket) => socket.end())
    expect(errorClassOf(await post(localSender(), closing.url))).toBe('reset')
    const halfway = await rawReceiver((socket) => socket.end('HTTP/1.1 200 OK\r\nx-half: '))
    expect(errorClassOf(await post(localSender(), halfway.url))).toBe('reset')
  })

  test('dns: no such name', async () => {
    const sender = localSender({ dns: { servers: ['127.0.0.1:9'], budgetMs: 300, lookup: async () => [] } })
    const { result } = await post(sender, 'http://nowhere.example/')
    expect(result).toMatchObject({ kind: 'failed', errorClass: 'dns' })
  })

  test('blocked: an address that is not allowed, and nothing is told of it', async () => {
    const { result } = await post(localSender(), 'http://10.0.0.1/')
    expect(result).toMatchObject({ kind: 'failed', errorClass: 'blocked' })
    expect((await post(localSender(), 'ftp://example.com/')).result).toMatchObject({ errorClass: 'blocked' })
  })

  test('ours: a header that cannot be sent', async () => {
    const { url } = await httpReceiver((_, response) => response.end())
    const sender = localSender()
    expect(errorClassOf(await post(sender, url, { headers: { 'x-own': 'a\r\nb: c' } }))).toBe('ours')
    expect(errorClassOf(await post(sender, url, { headers: { 'bad name': 'a' } }))).toBe('ours')
    expect(errorClassOf(await post(sender, url))).toBe('answered 200')
  })

  test('ours: the caller gives up, before or during', async () => {
    const controller = new AbortController()
    const { url, sockets } = await rawReceiver(() => controller.abort())
    const sender = localSender()
    expect(errorClassOf(await post(sender, url, { signal: controller.signal }))).toBe('ours')
    expect(errorClassOf(await post(sender, url, { signal: AbortSignal.abort() }))).toBe('ours')
    expect(sockets).toHaveLength(1)
  })

  test('ours: the sender is closed, while sending or before', async () => {
    const sender = localSender()
    const { url, sockets } = await rawReceiver(() => sender.close())
    expect(errorClassOf(await post(sender, url))).toBe('ours')
    expect(errorClassOf(await post(sender, url))).toBe('ours')
    expect(sockets).toHaveLength(1)
    await sender.close()
  })
})

describe('the deadline', () => {
  test('cuts an endpoint that never answers', async () => {
    const { url, sockets } = await rawReceiver(() => undefined)
    const sent = await post(localSender(), url, { timeoutMs: 1_000 })
    expect(errorClassOf(sent)).toBe('timeout')
    expect(sent.timings.totalMs).toBeGreaterThanOrEqual(995)
    if (!sockets[0]?.destroyed) await once(sockets[0] as NonNullable<(typeof sockets)[0]>, 'close')
  })

  test('is not put off by drops of a head', async () => {
    const { url } = await rawReceiver((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n')
      const drip = setInterval(() => socket.write('x-drop: 1\r\n'), 20)
      socket.on('close', () => clearInterval(drip))
    })
    expect(errorClassOf(await post(localSender(), url, { timeoutMs: 1_000 }))).toBe('timeout')
  })

  test('covers a receiver that does not read', async () => {
    const { url } = await listening(createServer((socket) => socket.pause()))
    const body = Buffer.alloc(16_000_000)
    expect(errorClassOf(await post(localSender(), url, { timeoutMs: 1_000, body }))).toBe('timeout')
  })

  test('does not charge the endpoint for waiting until a connection is free', async () => {
    const { url, sockets } = await rawReceiver(() => undefined)
    const sender = localSender({ connectionsMax: 1 })
    const [first, second] = await Promise.all([
      post(sender, url, { timeoutMs: 1_500 }),
      post(sender, url, { timeoutMs: 500 }),
    ])
    expect([errorClassOf(first), errorClassOf(second)]).toEqual(['timeout', 'ours'])
    expect(sockets).toHaveLength(1)
  })
})
