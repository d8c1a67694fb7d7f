import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { formatDuration, parseDuration } from '../../src/cli/duration.ts'
import { createPosthorn } from '../../src/create.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { posthorn, urlOf } from './process.ts'

let database: TestDatabase
let env: Record<string, string>
beforeAll(async () => {
  database = await createTestDatabase('cli_prune')
  env = { DATABASE_URL: urlOf(database.connection) }
})
afterAll(() => database.drop())

/** Events that nobody wants are finished at once. */
async function publish(count: number): Promise<void> {
  const hub = await createPosthorn({ database: database.connection, log: false })
  await hub.publishMany(Array.from({ length: count }, (_, n) => ({ type: 'nobody', payload: n })))
  await hub.stop()
}

test('prune counts first, then removes, and says what went', async () => {
  await publish(3)
  const dry = await posthorn(['prune', '--older-than', '0s', '--dry-run'], env)
  expect(dry).toMatchObject({ code: 0, stderr: '' })
  expect(dry.stdout).toMatch(/^events +3$/m)
  expect(dry.stdout).toContain('Nothing was changed.')
  expect((await posthorn(['prune'], env)).stdout).toMatch(/^events +0$/m)
  const { code, stdout } = await posthorn(['prune', '--older-than', '0s'], env)
  expect(code).toBe(0)
  expect(stdout).toMatch(/^events +3$/m)
  expect(stdout).toMatch(/^dead_letters +0$/m)
  const db = await database.open({ schema: 'posthorn' })
  const { rows } = await db.query(`select actor, action from posthorn.admin_log order by id desc limit 1`)
  expect(rows).toEqual([{ actor: expect.stringMatching(/^cli:/), action: 'prune' }])
})

test('prune makes the directory of the archive only when there is something to write', async () => {
  await publish(1)
  const parent = await mkdtemp(join(tmpdir(), 'ph-prune-'))
  expect((await posthorn(['prune', '--archive', join(parent, 'a')], env)).code).toBe(0)
  expect(await readdir(parent)).toEqual([])
  await rm(parent, { recursive: true })
})

test('storage shows every table and how long things are kept, or the same as JSON', async () => {
  await publish(1)
  const { code, stdout } = await posthorn(['storage'], { ...env, POSTHORN_KEEP_FINISHED_MS: '5400000' })
  expect(code).toBe(0)
  expect(stdout).toMatch(/^TABLE +ROWS +SIZE +OLDEST$/m)
  expect(stdout).toMatch(/^events +\d+ +\d+ KB +\d{4}-/m)
  expect(stdout).toContain('finished events are kept for 90m')
  expect(stdout).toContain('the audit is kept for 7d, and not archived')
  const json = JSON.parse((await posthorn(['storage', '--json'], env)).stdout)
  expect(json).toMatchObject({ keep_dead_letters_ms: 7_776_000_000, types: [] })
})

describe('wrong usage', () => {
  test.each([
    [
      ['prune', '--older-than', '7'],
      'Expected --older-than to be a time such as 7d, 36h, 90m or 30s, got 7.',
    ],
    [['prune', '--older-than', '-1d'], '--older-than'],
    [['prune', '--older-than', '9999d'], 'Expected --older-than to be an integer from 0 to'],
    [['prune', '--dead-letters-older-than', 'x'], 'Expected --dead-letters-older-than to be a time'],
    [['prune', '--archive-dir=x'], 'POSTHORN_ARCHIVE_DIR sets it'],
    [['prune', 'now'], 'got now'],
    [['storage', '--jsn'], '--jsn'],
  ])('%s ends with 2 and one line', async (args, says) => {
    const { code, stdout, stderr } = await posthorn(args, env)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^BAD_OPTION: .+\n$/)
    expect(stderr).toContain(says)
  })
})

test.each([
  ['30s', 30_000],
  ['90m', 5_400_000],
  ['36h', 129_600_000],
  ['7d', 604_800_000],
])('%s is read and written alike', (text, ms) => {
  expect(parseDuration('x', text)).toBe(ms)
  expect(formatDuration(ms)).toBe(text)
})
