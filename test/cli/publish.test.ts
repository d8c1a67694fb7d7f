import { once } from 'node:events'
import { createServer, type Server as HttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { posthorn, posthornHere, type Server, serve, takePort, urlOf } from './process.ts'

describe('publish', () => {
  let database: TestDatabase
  let server: Server
  let env: Record<string, string>
  beforeAll(async () => {
    database = await createTestDatabase('cli_publish')
    server = await serve({ DATABASE_URL: urlOf(database.connection) })
    env = { PORT: new URL(server.url).port }
  })
  afterAll(async () => {
    await server.stop()
    await database.drop()
  })

  test('prints the event as it was stored, its payload as it was typed', async () => {
    const options = [
      '--tags',
      'a,b',
      '--title',
      'An order',
      '--ordering-key',
      'k',
      '--run-at=2127-01-01T00:00:00Z',
    ]
    const { code, stdout } = await posthorn(
      ['publish', 'order.created', '{"n": 12345678901234567890}', ...options],
      env,
    )
    expect(code).toBe(0)
    expect(stdout).toContain('{"n": 12345678901234567890}')
    expect(JSON.parse(stdout)).toMatchObject({
      type: 'order.created',
      tags: 'a,b',
      title: 'An order',
      ordering_key: 'k',
      run_at: '2127-01-01T00:00:00.000Z',
    })
  })

  test('takes the payload from standard input, and null when there is none', async () => {
    const piped = await posthorn(['publish', 'a', '-'], env, '\n [1,\n2]\n')
    expect(JSON.parse(piped.stdout)).toMatchObject({ payload: [1, 2] })
    expect(JSON.parse((await posthorn(['publish', 'a'], env)).stdout)).toMatchObject({ payload: null })
  })

  test('an idempotency key makes a repeat the same event, and another event an error', async () => {
    const again = (payload: string) => posthorn(['publish', 'a', payload, '--idempotency-key', 'x'], env)
    const first = JSON.parse((await again('1')).stdout)
    expect(JSON.parse((await again('1')).stdout)).toEqual(first)
    expect(await again('2')).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(/^IDEMPOTENCY_MISMATCH: .*\n$/),
    })
  })

  test('what the server refuses is said with its code, and was typed wrongly', async () => {
    expect(await posthorn(['publish', 'a b'], env)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^BAD_EVENT: Expected type .*\n$/),
    })
    expect(await posthornHere(['publish', '--title', 'no tags'], env)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^BAD_EVENT: Expected type to be given when there are no tags.*\n$/),
    })
  })

  test('with a title the type may be left out, and what stands alone is the payload', async () => {
    const work = ['--title', 'Send mail', '--tags', 'email']
    const one = await posthornHere(['publish', ...work, '{"n":1}'], env)
    expect(JSON.parse(one.stdout)).toMatchObject({
      ...{ title: 'Send mail', tags: 'email', payload: { n: 1 } },
      type: null,
    })
    const none = await posthornHere(['publish', ...work], env)
    expect(JSON.parse(none.stdout)).toMatchObject({ type: null, payload: null })
    const both = await posthornHere(['publish', 'mail.due', '7', ...work], env)
    expect(JSON.parse(both.stdout)).toMatchObject({ type: 'mail.due', title: 'Send mail', payload: 7 })
  })

  test('after -- a payload may begin with a dash', async () => {
    const { stdout } = await posthornHere(['publish', 'a', '--title', 'cold', '--', '-5'], env)
    expect(JSON.parse(stdout)).toMatchObject({ type: 'a', payload: -5 })
  })

  test('a DATABASE_URL that it does not need is none of its business', async () => {
    const { code } = await posthornHere(['publish', 'a'], { ...env, DATABASE_URL: 'mysql://x' })
    expect(code).toBe(0)
  })

  test('a server that is not there is named, with what to do', async () => {
    const { port, close } = await takePort()
    await close()
    expect(await posthornHere(['publish', 'a'], { PORT: `${port}` })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        new RegExp(`^UNREACHABLE: .*127\\.0\\.0\\.1:${port}.*posthorn serve.*\n$`),
      ),
    })
  })
})

describe('standard input', () => {
  const bad = async (input: Uint8Array | string, reason: string) => {
    const { code, stdout, stderr } = await posthorn(['publish', 'a', '-'], {}, input)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^(BAD_PAYLOAD|PAYLOAD_TOO_LARGE): .*\n$/)
    expect(stderr).toContain(reason)
  }

  test('that is not UTF-8 is refused', () => bad(Uint8Array.of(0x22, 0xff, 0x22), 'is not UTF-8'))
  test('with a byte order mark is refused, as the server would', () =>
    bad('\ufeff{}', 'line 1, column 1 cannot be read'))
  test('of many brackets is refused in one line', () =>
    bad('['.repeat(100_000), 'nested more than 64 deep, at line 1, column 65'))
  test('of more than can be stored is refused in one line', () => bad(`"${'a'.repeat(2e7)}"`, '1048576'))
})

describe('at another server', () => {
  const servers: HttpServer[] = []
  afterEach(() => void servers.splice(0).map((server) => server.close()))

  async function answering(answer: (request: IncomingMessage, response: ServerResponse) => void) {
    const server = createServer(answer)
    servers.push(server)
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return { POSTHORN_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  }

  test.each(['', 'hello', 'null', '[]', '{}', '{"id":"7"}', '{"id":7.5}'])(
    'an answer without an id is none of Posthorn’s: %s',
    async (text) => {
      const env = await answering((_, response) => void response.end(text))
      expect(await posthornHere(['publish', 'a'], env)).toMatchObject({
        ...{ code: 1, stdout: '' },
        stderr: expect.stringMatching(/^BAD_ANSWER: .*\n$/),
      })
    },
  )

  test('a redirect is refused, and nobody follows it', async () => {
    const methods: unknown[] = []
    const env = await answering(({ method }, response) => {
      methods.push(method)
      response.writeHead(method === 'POST' ? 302 : 200, { location: '/elsewhere' }).end('{"id":7}')
    })
    expect(await posthornHere(['publish', 'a'], env)).toMatchObject({ code: 1, stdout: '' })
    expect(methods).toEqual(['POST'])
  })

  test.each([
    [400, 2],
    [401, 1],
    [403, 1],
    [404, 1],
    [409, 1],
    [413, 2],
    [415, 2],
    [422, 2],
    [500, 1],
  ])('%i ends it with %i', async (status, code) => {
    const env = await answering((_, response) => void response.writeHead(status).end())
    const { stderr, ...ended } = await posthornHere(['publish', 'a'], env)
    expect(ended).toEqual({ code, stdout: '' })
    expect(stderr).toMatch(/^HTTP_\d+: .*\n$/)
  })

  test('it is sent again under the same key when the server is busy', async () => {
    const keys: unknown[] = []
    const env = await answering(({ headers }, response) => {
      keys.push(headers['idempotency-key'])
      response.writeHead(keys.length === 1 ? 503 : 201).end('{"id":7}')
    })
    expect(await posthornHere(['publish', 'a'], env)).toEqual({ code: 0, stdout: '{"id":7}\n', stderr: '' })
    expect(await posthornHere(['publish', 'a'], env)).toMatchObject({ code: 0 })
    const [first, second, third] = keys
    expect(first).toMatch(/^[\da-f-]{36}$/)
    expect(second).toBe(first)
    expect(third).not.toBe(first)
  })

  test('an address or a key that cannot be is called by its variable', async () => {
    for (const [name, value] of Object.entries({ POSTHORN_URL: 'ftp://x', POSTHORN_KEY: 'my secret' })) {
      const { code, stderr } = await posthornHere(['publish', 'a'], { [name]: value })
      expect(code).toBe(2)
      expect(stderr).toMatch(new RegExp(`^BAD_OPTION: Expected ${name} to be .*\n$`))
      expect(stderr).not.toContain('secret')
    }
  })
})
