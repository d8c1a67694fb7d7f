import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { eventually } from '../support/signal.ts'
import { posthorn, type Server, serve, takePort, urlOf } from './process.ts'

describe('help', () => {
  test.each([[['help']], [['--help']], [['-h']]])('%s lists the commands', async (args) => {
    const { code, stdout, stderr } = await posthorn(args)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const name of ['serve', 'publish', 'keys', 'migrate', 'doctor']) {
      expect(stdout).toContain(`posthorn ${name} `)
    }
  })

  test.each(['serve', 'publish', 'keys', 'migrate', 'doctor'])('%s has its own', async (name) => {
    const { code, stdout } = await posthorn([name, '--help'])
    expect(code).toBe(0)
    expect(stdout).toMatch(new RegExp(`^posthorn ${name}`))
    expect(stdout).toContain('Environment:')
    expect(await posthorn(['help', name])).toMatchObject({ code: 0, stdout })
  })

  test('the version is the package’s', async () => {
    expect(await posthorn(['--version'])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
    })
  })
})

describe('wrong usage', () => {
  test.each([
    [['cook'], 'There is no command cook'],
    [['constructor'], 'There is no command constructor'],
    [['help', 'cook'], 'There is no command cook'],
    [['serve', 'now'], 'got now'],
    [['migrate', '--force'], '--force'],
    [['keys', 'rotate'], 'got rotate'],
    [['keys', 'create', '--name', 'a'], '--scopes'],
    [['publish'], '<type>'],
    [['publish', 'a', '1', '2'], 'got 2'],
    [['publish', 'a', '{"n":1, }'], 'line 1, column 9'],
    [['doctor', '--jsn'], '--jsn'],
  ])('%s ends with 2 and one line', async (args, says) => {
    const { code, stdout, stderr } = await posthorn(args, { POSTHORN_DATA_DIR: '/nowhere/at/all' })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^.+\n$/)
    expect(stderr).toContain(says)
  })
})

describe('on the embedded database', () => {
  let parent: string
  let env: Record<string, string>
  beforeAll(async () => {
    parent = await mkdtemp(join(tmpdir(), 'ph-cli-'))
    env = { POSTHORN_DATA_DIR: join(parent, 'data') }
  })
  afterAll(() => rm(parent, { recursive: true, force: true }))
  const isRunning = () => existsSync(join(parent, 'data', 'postgres', 'postmaster.pid'))

  test('commands that only look make no database', async () => {
    for (const args of [
      ['keys', 'list'],
      ['migrate', '--dry-run'],
    ]) {
      const { code, stderr } = await posthorn(args, env)
      expect({ args, code }).toEqual({ args, code: 1 })
      expect(stderr).toMatch(/^DATA_DIRECTORY_UNUSABLE: .* there is no database in it yet.*\n$/)
    }
    const { code, stdout } = await posthorn(['doctor'], { ...env, PORT: '0' })
    expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('none yet') })
    expect(existsSync(join(parent, 'data'))).toBe(false)
  })

  test('a command starts the server for its own time', async () => {
    const { code, stdout } = await posthorn(['migrate'], env)
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/applied 0001_initial, /),
    })
    expect(isRunning()).toBe(false)
    expect(await posthorn(['keys', 'list'], env)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('no keys'),
    })
    expect(isRunning()).toBe(false)
  })

  test('a server that refuses to start leaves nothing running', async () => {
    expect(await posthorn(['serve'], { ...env, HOST: '0.0.0.0', PORT: '0' })).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^BIND_REFUSED: /),
    })
    expect(isRunning()).toBe(false)
  })

  test('commands join the server that is running, and leave it so; the first key closes the API', async () => {
    const server = await serve(env)
    expect(server.lines[1]).toMatch(/^PostgreSQL .* in \/.*\/data, durable: fsync/)
    expect((await fetch(`${server.url}/events`)).status).toBe(200)
    const port = new URL(server.url).port
    const doctor = await posthorn(['doctor'], { ...env, PORT: port })
    expect(doctor).toMatchObject({ code: 0, stderr: '' })
    expect(doctor.stdout).toContain(`posthorn answers on port ${port}`)
    expect(doctor.stdout).not.toMatch(/^(warn|fail)/m)

    const created = await posthorn(['keys', 'create', '--name', 'a', '--scopes', 'publish,read'], {
      ...env,
      PORT: port,
    })
    expect(created).toMatchObject({ code: 0, stderr: '' })
    expect(created.stdout).toContain(`http://localhost:${port}/events`)
    const key = /^ph_\S+$/m.exec(created.stdout)?.[0] as string
    const madeAt = performance.now()
    await eventually('calls need a key', async () => (await fetch(`${server.url}/events`)).status === 401)
    expect(performance.now() - madeAt).toBeLessThan(5_000)

    const target = { POSTHORN_URL: server.url, POSTHORN_API_KEY: key }
    expect(await posthorn(['publish', 'a'], { POSTHORN_URL: server.url })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^UNAUTHORIZED: .*\n$/),
    })
    expect(await posthorn(['publish', 'a'], target)).toMatchObject({ code: 0 })
    expect(isRunning()).toBe(true)
    expect(await server.stop()).toMatchObject({ code: 0, stderr: '' })
    expect(isRunning()).toBe(false)
  })
})

describe('on a database of its own', () => {
  let database: TestDatabase
  let env: Record<string, string>
  beforeAll(async () => {
    database = await createTestDatabase('cli_commands')
    env = { DATABASE_URL: urlOf(database.connection) }
  })
  afterAll(() => database.drop())

  test('keys say that it is not migrated, the dry run shows what is missing as SQL, and migrate applies it', async () => {
    expect(await posthorn(['keys', 'list'], env)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^SCHEMA_MISSING: .*run posthorn migrate first\.\n$/),
    })
    const unready = await posthorn(['doctor', '--json'], { ...env, PORT: '0' })
    expect(unready.code).toBe(1)
    expect(JSON.parse(unready.stdout)).toMatchObject({
      ok: false,
      checks: expect.arrayContaining([
        {
          check: 'schema',
          state: 'fail',
          says: expect.stringContaining('0001_initial'),
          fix: expect.stringContaining('posthorn migrate'),
        },
      ]),
    })

    const dry = await posthorn(['migrate', '--dry-run'], env)
    expect(dry).toMatchObject({ code: 0, stderr: '' })
    expect(dry.stdout).toMatch(/^-- The schema "posthorn" lacks \d+: 0001_initial, /)
    const db = await database.open()
    await db.session((connection) => connection.query(dry.stdout))
    expect((await posthorn(['migrate'], env)).stdout).toBe('The schema "posthorn" is up to date.\n')
    expect((await posthorn(['migrate', '--dry-run'], env)).stdout).toBe(
      '-- The schema "posthorn" is up to date.\n',
    )

    const { stdout } = await posthorn(['doctor', '--json'], { ...env, PORT: '0' })
    const checks = JSON.parse(stdout).checks as { check: string; state: string }[]
    const order = ['node', 'database', 'durability', 'schema', 'clock', 'connections', 'keys', 'port']
    expect([...new Set(checks.map(({ check }) => check))]).toEqual(order)
  })

  test('a command’s log goes to stderr, and only if it is asked for', async () => {
    const { code, stdout, stderr } = await posthorn(['keys', 'list', '--json'], {
      ...env,
      LOG_LEVEL: 'trace',
    })
    expect({ code, stdout }).toEqual({ code: 0, stdout: '[]\n' })
    for (const line of stderr.split('\n').filter(Boolean)) expect(JSON.parse(line)).toHaveProperty('msg')
  })
})

describe('the doctor', () => {
  test('says what to do about a database that is away and a port that is taken', async () => {
    const { port, close } = await takePort()
    const env = { DATABASE_URL: 'postgres://127.0.0.1:1/none', PORT: `${port}` }
    const { code, stdout } = await posthorn(['doctor'], env)
    await close()
    expect(code).toBe(1)
    expect(stdout).toMatch(/^fail {2}database +DATABASE_UNAVAILABLE: .*\n +fix: check DATABASE_URL/m)
    expect(stdout).toMatch(/^fail {2}port +something else listens.*\n +fix: .*PORT=\d+/m)
  })

  test('says that an address for others needs a key', async () => {
    const parent = await mkdtemp(join(tmpdir(), 'ph-cli-'))
    const env = { POSTHORN_DATA_DIR: join(parent, 'data'), HOST: '0.0.0.0', PORT: '0' }
    const { code, stdout } = await posthorn(['doctor'], env)
    expect(code).toBe(1)
    expect(stdout).toMatch(/^fail {2}keys .*0\.0\.0\.0\n +fix: run posthorn keys create/m)
    const short = await posthorn(['doctor'], { ...env, POSTHORN_ADMIN_KEY: 'admin' })
    expect(short.stdout).toMatch(/^fail {2}keys .*16 to 1000/m)
    await rm(parent, { recursive: true })
  })
})

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
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^IDEMPOTENCY_MISMATCH: .*\n$/),
    })
  })

  test('what the server refuses is said with its code', async () => {
    expect(await posthorn(['publish', 'a b'], env)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^BAD_EVENT: Expected type .*\n$/),
    })
  })

  test('a server that is not there is named, with what to do', async () => {
    const { port, close } = await takePort()
    await close()
    expect(await posthorn(['publish', 'a'], { PORT: `${port}` })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        new RegExp(`^UNREACHABLE: .*127\\.0\\.0\\.1:${port}.*posthorn serve.*\n$`),
      ),
    })
  })
})
