import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { listSubscriptions } from '../src/subscriptions/subscriptions.ts'
import { createTestDatabase, type TestDatabase } from './support/database.ts'
import { useServers } from './support/http.ts'

const run = promisify(execFile)
const folder = fileURLToPath(new URL('../examples/', import.meta.url))

/** What each example prints. A new example needs a line here. */
const prints: Record<string, string[]> = {
  'handler.js': ['receipt for order 7, attempt 2'],
  'outbox.js': ['refused: duplicate key value violates unique constraint "orders_pkey"', 'shipped: 1, 2'],
  'ordered-lanes.js': ['alice: deposit 100, withdraw 50, close', 'bob: deposit 10'],
  'exactly-once.js': ['balance: 60'],
  'webhook-receiver.js': ['answered 204', 'answered 204', 'answered 401', 'booked [ { amount: 10 } ]'],
  'webhook-receiver-fastify.js': [
    'msg_1 is new, next',
    'msg_2 is new, next',
    'msg_2 is known, repeat',
    'msg_4 is new, gap',
  ],
  'issuings-ai-checks.js': ['checked: t1,t3; expired: t2'],
  'pull-worker.js': ['invoice 7: 3 pages', 'invoice 7 is COMPLETED', 'invoice 8 is FAILED'],
}

const servers = useServers('example_server')

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase('example')
})
afterEach(() => database.drop())

test('every example is run here, and none is longer than 40 lines', () => {
  const names = readdirSync(folder).filter((name) => name.endsWith('.js'))
  expect(names.sort()).toEqual(Object.keys(prints).sort())
  const long = names.filter(
    (name) =>
      readFileSync(folder + name, 'utf8')
        .trimEnd()
        .split('\n').length > 40,
  )
  expect(long).toEqual([])
})

const needsDatabase = Object.keys(prints).filter((name) =>
  readFileSync(folder + name, 'utf8').includes('process.env.DATABASE_URL'),
)

test('five examples have tables of their own', () => expect(needsDatabase).toHaveLength(5))

test.each(needsDatabase)('without a server examples/%s says in one line what it needs', async (name) => {
  const { DATABASE_URL: _, ...env } = process.env
  const ended = run(process.execPath, [folder + name], { env, timeout: 120_000 })
  const stderr = expect.stringMatching(/^This example needs .* set DATABASE_URL, .*\n$/)
  await expect(ended).rejects.toMatchObject({ code: 1, stderr })
})

test.each(Object.entries(prints))('examples/%s prints what it promises', async (name, lines) => {
  const { host, port, user, database: db } = database.connection
  const url = `postgres://${user}@/${db}?host=${encodeURIComponent(host)}&port=${port}`
  const server = name.startsWith('pull-') ? await servers.open() : undefined
  const { stdout } = await run(process.execPath, [folder + name], {
    env: { ...process.env, DATABASE_URL: url, POSTHORN_URL: server?.url, LOG_LEVEL: 'silent' },
    timeout: 120_000,
  })
  expect(stdout.trim().split('\n')).toEqual(lines)
  expect(await abandoned()).toEqual([])
})

/** What would be owed events for ever, with nobody there to take them. */
async function abandoned(): Promise<string[]> {
  const db = await database.open()
  const { rows } = await db.query<{ posthorn: boolean }>(
    `select to_regclass('posthorn.subscriptions') is not null as posthorn`,
  )
  if (rows[0]?.posthorn !== true) return []
  const subscriptions = await listSubscriptions(db)
  return subscriptions.filter(({ via }) => via === 'handler').map(({ name }) => name)
}
