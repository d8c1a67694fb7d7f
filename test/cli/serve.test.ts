import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { eventually } from '../support/signal.ts'
import { posthorn, posthornHere, type Server, serve, takePort, urlOf } from './process.ts'

const run = promisify(execFile)
const version = /^posthorn \d+\.\d+\.\d+/

let database: TestDatabase
let env: Record<string, string>
const servers: Server[] = []
beforeAll(async () => {
  database = await createTestDatabase('cli_serve')
  env = { DATABASE_URL: urlOf(database.connection) }
})
afterEach(async () => void (await Promise.all(servers.splice(0).map((server) => server.stop()))))
afterAll(() => database.drop())

async function started(more: Record<string, string> = {}): Promise<Server> {
  const server = await serve({ ...env, ...more })
  servers.push(server)
  return server
}

/** What stands after `try:`, as somebody would paste it. */
async function pasted({ lines }: Server, more: Record<string, string> = {}): Promise<unknown> {
  const line = (lines[2] as string).replace(/^try: +/, '')
  const { stdout } = await run('sh', ['-c', line], { env: { ...process.env, ...more } })
  return JSON.parse(stdout)
}

test('says where it listens, where the data is, and a call that works; the log comes after that', async () => {
  const server = await started()
  const { port } = new URL(server.url)
  expect(server.lines[0]).toMatch(version)
  expect(server.lines[0]).toContain(
    `listens on http://127.0.0.1:${port} (docs: http://127.0.0.1:${port}/docs), for this machine only`,
  )
  expect(server.lines[1]).toMatch(/^PostgreSQL \d+.*synced/)
  expect(await pasted(server)).toMatchObject({ type: 'hello', payload: { n: 1 } })
  const { code, stdout, stderr } = await server.stop()
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  const log = stdout.trim().split('\n').slice(3)
  expect(log.map((line) => JSON.parse(line).msg)).toEqual(['Stopping', 'Stopped'])
})

test('a long poll is sent home when the server is told to stop', async () => {
  const server = await started()
  const parked = fetch(`${server.url}/events/subscribe?tags=x&worker_id=w&wait=30`)
  await eventually('the worker is seen', async () => {
    const { workers } = (await (await fetch(`${server.url}/workers`)).json()) as {
      workers: { worker_id: string }[]
    }
    return workers.some(({ worker_id }) => worker_id === 'w')
  })
  const toldAt = performance.now()
  const ended = server.stop()
  expect((await parked).status).toBe(204)
  expect((await ended).code).toBe(0)
  // Left alone, it would wait for thirty.
  expect(performance.now() - toldAt).toBeLessThan(20_000)
})

describe('told to stop in the middle of a request', () => {
  const body = '{"type":"hello","payload":1}'
  const head = `POST /events HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${body.length}\r\n\r\n`

  async function halfSent({ url }: Server): Promise<Socket> {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    await once(socket, 'connect')
    socket.write(head + body.slice(0, 9))
    // The server has read it once it has answered a request that was sent later.
    await fetch(`${url}/livez`)
    return socket
  }

  test('it finishes that first, and takes no other', async () => {
    const server = await started()
    const socket = await halfSent(server)
    const idle = connect(Number(new URL(server.url).port), '127.0.0.1')
    await once(idle, 'connect')
    server.signal('SIGINT')
    await eventually('it takes no more connections', () =>
      fetch(`${server.url}/livez`).then(
        () => false,
        () => true,
      ),
    )
    socket.write(body.slice(9))
    const [answer] = (await once(socket, 'data')) as [Buffer]
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 202 /)
    const finishedAt = performance.now()
    expect((await server.ended).code).toBe(0)
    expect(performance.now() - finishedAt).toBeLessThan(20_000)
    idle.destroy()
  })

  test('a second signal ends it at once', async () => {
    const server = await started()
    const socket = await halfSent(server)
    socket.on('error', () => socket.destroy())
    let code: number | null | undefined
    void server.ended.then((end) => {
      code = end.code
    })
    await eventually('it has ended', () => {
      server.signal()
      return code !== undefined
    })
    expect(code).toBe(1)
  })
})

test('closing its terminal, a SIGHUP, stops it and its embedded database as SIGTERM does', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'ph-hangup-'))
  const postmaster = join(directory, 'postgres', 'postmaster.pid')
  try {
    const server = await serve({ POSTHORN_DATA_DIR: directory })
    servers.push(server)
    expect(existsSync(postmaster)).toBe(true)
    server.signal('SIGHUP')
    const { code, stdout } = await server.ended
    expect({ code, isDatabaseLeft: existsSync(postmaster) }).toEqual({ code: 0, isDatabaseLeft: false })
    expect(stdout).toContain('"msg":"Stopped"')
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
})

test('a port that is taken is named, with another one', async () => {
  const { port, close } = await takePort()
  const { code, stdout, stderr } = await posthorn([], { ...env, PORT: `${port}` })
  await close()
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toBe(
    `PORT_IN_USE: Another process already listens on port ${port} of 127.0.0.1: stop it, or set PORT=${port + 1}.\n`,
  )
})

test('a database that is away is said in one line, within seconds', async () => {
  const { port, close } = await takePort()
  await close()
  const beganAt = performance.now()
  const url = `postgres://nobody:secret@127.0.0.1:${port}/posthorn`
  const { code, stdout, stderr } = await posthorn(['serve'], { DATABASE_URL: url })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^DATABASE_UNAVAILABLE: .*ECONNREFUSED.*\n$/)
  expect(stderr).not.toContain('secret')
  expect(performance.now() - beganAt).toBeLessThan(30_000)
})

describe('what is refused, by its name and value', () => {
  test.each([
    ['PORT', 'http', 'got http'],
    ['PORT', '65536', 'got 65536'],
    ['POSTHORN_ROLES', 'api,cook', 'got cook'],
    ['POSTHORN_ROLES', 'api,', 'got nothing'],
    ['LOG_LEVEL', 'loud', 'got loud'],
    ['POSTHORN_ADMIN_KEY', 'admin', 'got 5 characters'],
    ['HOST', '127.0.0.1.example.invalid', 'example.invalid'],
  ])('%s=%s', async (name, value, got) => {
    const more = name === 'HOST' ? { POSTHORN_ADMIN_KEY: 'a key of many characters' } : {}
    // A host is tried, which only a process of its own should do.
    const call = name === 'HOST' ? posthorn : posthornHere
    const { code, stdout, stderr } = await call(['serve'], { ...env, ...more, [name]: value })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(new RegExp(`^BAD_OPTION: Expected ${name} to be .*\n$`))
    expect(stderr).toContain(got)
  })
})

describe('a DATABASE_URL that is none is refused without a word of it', () => {
  const long = 'postgres://u:secret@host'
  test.each([
    ['shop', 'something else'],
    ['host=localhost password=secret', 'something else'],
    ['mysql://u:secret@host/shop', 'mysql://…'],
    ['postgres:u:secret', 'something else'],
    [`${long}:port/shop`, 'one that cannot be read'],
    [`${long}:99999/shop`, 'one that cannot be read'],
    ['postgresql://u:a@secret%ff@host/shop', 'one that cannot be read'],
  ])('%s', async (url, got) => {
    for (const command of [['serve'], ['keys', 'list'], ['doctor']]) {
      const { code, stdout, stderr } = await posthornHere(command, { DATABASE_URL: url })
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      const expected = 'a postgres:// or postgresql:// URL'
      expect(stderr).toBe(`BAD_OPTION: Expected DATABASE_URL to be ${expected}, got ${got}.\n`)
    }
  })
})

describe('an address that others can reach', () => {
  test('is refused without keys, and it is said how to make one', async () => {
    const { code, stdout, stderr } = await posthorn(['serve'], { ...env, HOST: '0.0.0.0', PORT: '0' })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^BIND_REFUSED: .*0\.0\.0\.0.*posthorn keys create.*POSTHORN_ADMIN_KEY.*\n$/)
  })

  test('is taken with an admin key, which every call then needs', async () => {
    const key = 'a key of many characters'
    const server = await started({ HOST: '0.0.0.0', POSTHORN_ADMIN_KEY: key })
    expect(server.lines[0]).toMatch(
      /listens on http:\/\/0\.0\.0\.0:\d+ \(docs: http:\/\/localhost:\d+\/docs\)$/,
    )
    expect(await pasted(server)).toMatchObject({ code: 'unauthorized' })
    expect(await pasted(server, { POSTHORN_KEY: key })).toMatchObject({ type: 'hello' })
  })
})

test('without the role api it listens nowhere, and works until it is told to stop', async () => {
  const server = await started({ POSTHORN_ROLES: 'upkeep, dispatcher' })
  expect(server.lines[0]).toMatch(/^posthorn \S+ runs dispatcher and upkeep, and no API$/)
  expect(server.lines[1]).toContain('PostgreSQL')
  expect(await server.stop()).toMatchObject({ code: 0, stderr: '' })
})

test('variables that are set to nothing count as not set', async () => {
  const server = await started({ HOST: '', POSTHORN_ROLES: '', POSTHORN_ADMIN_KEY: '', LOG_LEVEL: '' })
  expect((await fetch(`${server.url}/readyz`)).status).toBe(200)
})
