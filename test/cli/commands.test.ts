import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { serverVariables } from '../../src/config.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { type Ended, posthorn, posthornHere, takePort, urlOf } from './process.ts'

describe('help', () => {
  test.each([[['help']], [['--help']], [['-h']]])('%s lists the commands', async (args) => {
    const { code, stdout, stderr } = await posthorn(args)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const name of ['serve', 'publish', 'listen', 'keys', 'migrate', 'prune', 'storage', 'doctor']) {
      expect(stdout).toContain(`posthorn ${name} `)
    }
  })

  test.each(['serve', 'publish', 'listen', 'keys', 'migrate', 'prune', 'storage', 'doctor'])(
    '%s has its own',
    async (name) => {
      const { code, stdout } = await posthorn(['help', name])
      expect(code).toBe(0)
      expect(stdout).toMatch(new RegExp(`^posthorn ${name}`))
      expect(stdout).toContain('Environment:')
    },
  )

  test('serve names every variable that it reads', async () => {
    const { stdout } = await posthorn(['serve', '--help'])
    for (const name of serverVariables) expect(stdout).toMatch(new RegExp(`^  ${name} `, 'm'))
    expect(await posthorn(['help', 'serve'])).toMatchObject({ code: 0, stdout })
  })

  test('the version is the package’s', async () => {
    expect(await posthorn(['--version'])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
    })
  })
})

describe('wrong usage', () => {
  const directory = join(tmpdir(), `ph-cli-never-${process.pid}`)
  const env = { POSTHORN_DATA_DIR: directory }
  const isRefused = ({ code, stdout, stderr }: Ended, says: string) => {
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^[A-Z_]+: .+\n$/)
    expect(stderr).toContain(says)
    expect(existsSync(directory)).toBe(false)
  }

  test.each([
    [['cook'], 'BAD_OPTION: Expected the command to be one of serve, publish,'],
    [['constructor'], 'got constructor'],
    [['help', 'cook'], 'got cook'],
    [['serve', 'now'], 'got now'],
  ])('%s ends the process with 2 and one line, and makes nothing', async (args, says) => {
    isRefused(await posthorn(args, env), says)
  })

  test.each([
    [['serve', '--port', '1'], 'Expected --port to be left out: PORT sets it, got --port.'],
    [['serve', '--data-dir=x'], 'POSTHORN_DATA_DIR sets it'],
    [['serve', '--poll-interval-ms=5'], 'POLL_INTERVAL_MS sets it'],
    [['serve', '--prot', '1'], 'Expected --prot to be left out, got --prot.'],
    [['migrate', '--database-url', 'x'], 'DATABASE_URL sets it'],
    [['migrate', '--force'], '--force'],
    [['keys', 'rotate'], 'got rotate'],
    [['keys', 'create', '--name', 'a'], '--scopes'],
    [['keys', 'create', '--name', 'a', '--scopes', 'foo'], 'Expected --scopes to be some of'],
    [['keys', 'create', '--name', 'a', '--scopes', 'read', '--rate', '-5'], 'Expected --rate to be'],
    [['publish'], 'Expected <type> to be given, unless there is a --title'],
    [['publish', ''], 'Expected <type> to be given'],
    [['publish', '--tags', 'a'], 'Expected <type> to be given'],
    [['publish', 'a', '--tags', ''], 'Expected --tags to be followed by a value, got nothing.'],
    [['publish', 'a', '--tags', ','], 'Expected --tags to be a,b, got ,.'],
    [['publish', 'a', '--title='], 'Expected --title to be followed by a value, got nothing.'],
    [
      ['publish', 'a', '--ordering-key', ' '],
      'Expected --ordering-key to be followed by a value, got nothing.',
    ],
    [['publish', 'a', '-5.2'], 'or to stand after --, got -5.2.'],
    [['publish', 'a', '--key=secret'], 'POSTHORN_KEY sets it, got --key.'],
    [['publish', 'a', '['.repeat(6_000)], 'BAD_PAYLOAD: '],
    [['publish', '--title', 'x', 'a.b'], 'BAD_PAYLOAD: '],
    [['publish', 'a', '1', '2'], 'got 2'],
    [['publish', 'a', '{"n":1, }'], 'line 1, column 9'],
    [['listen', 'now'], 'got now'],
    [['listen', '--forward', 'ftp://x'], 'Expected --forward to be an http or https URL'],
    [['listen', '--forward', 'http://me:secret@x/'], 'without a name and password, got one with.'],
    [['listen', '--secret', 'abc'], 'Expected --secret to be whsec_ and base64'],
    [['listen', '--format', 'xml'], 'Expected --format to be one of standard, raw, cloudevents'],
    [['listen', '--types', ','], 'Expected --types to be a,b.*, got ,.'],
    [['listen', '--key=secret'], 'POSTHORN_KEY sets it, got --key.'],
    [['doctor', '--jsn'], '--jsn'],
  ])('%s ends with 2 and one line, and makes nothing', async (args, says) => {
    isRefused(await posthornHere(args, env), says)
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
          says: expect.stringContaining('0001_baseline'),
          fix: expect.stringContaining('posthorn migrate'),
        },
      ]),
    })

    const dry = await posthorn(['migrate', '--dry-run'], env)
    expect(dry).toMatchObject({ code: 0, stderr: '' })
    expect(dry.stdout).toMatch(/^-- The schema "posthorn" lacks \d+: 0001_baseline$/m)
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
