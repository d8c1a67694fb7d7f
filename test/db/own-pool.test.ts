import { createRequire } from 'node:module'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { testPosthorn } from '../../src/testing/index.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'

let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase('own_pool')
})

afterAll(() => database.drop())

test("an application's own pool, from its own copy of pg, is used as it is and warns of nothing", async () => {
  const warnings: Error[] = []
  const onWarning = (warning: Error) => warnings.push(warning)
  process.on('warning', onWarning)
  const pool = new (ownCopyOfPg().Pool)({ ...database.connection, max: 5 })
  expect(pool).not.toBeInstanceOf(pg.Pool)
  try {
    const { hub, drain } = await testPosthorn({ database: pool })
    const seen: unknown[] = []
    hub.on('order.*', { name: 'orders', maxConcurrency: 5 }, async (event) => {
      if (event.type === 'order.failed') throw new Error('refused')
      seen.push(event.payload)
    })
    hub.on('order.*', { name: 'memory', storage: 'memory' }, () => undefined)
    await hub.start()
    await hub.publish({ type: 'order.created', payload: 1, idempotencyKey: 'a', orderingKey: 'a' })
    await hub.publish({ type: 'order.failed', payload: 2 })
    await hub.publishMany([
      { type: 'order.created', payload: 3, idempotencyKey: 'b' },
      { type: 'order.created', payload: 4, tags: ['eu'] },
    ])
    await drain()
    const polled = await hub.poll()
    if (polled !== null) await hub.finalize(polled.id)
    while (await hub.sweep());
    expect(pool.totalCount).toBeGreaterThan(0)
    expect(seen.sort()).toEqual([1, 3, 4])
    await hub.stop()
    expect(warnings.map(({ message }) => message)).toEqual([])
    expect(pool.ended).toBe(false)
  } finally {
    process.off('warning', onWarning)
    await pool.end()
  }
})

test('a statement that fails in a transaction of its own leaves the client of such a pool as it was', async () => {
  const pool = new (ownCopyOfPg().Pool)({ ...database.connection, max: 1 })
  try {
    const { hub } = await testPosthorn({ database: pool, schema: 'other' })
    await hub.publish({ type: 'order.created', payload: 1, idempotencyKey: 'a' })
    const again = hub.publish({ type: 'order.created', payload: 2, idempotencyKey: 'a' })
    await expect(again).rejects.toMatchObject({ code: 'IDEMPOTENCY_MISMATCH' })
    await hub.stop()
    const { rows } = await pool.query('select pg_current_xact_id_if_assigned() is null as idle')
    expect(rows).toEqual([{ idle: true }])
  } finally {
    await pool.end()
  }
})

/** What an application has that installed pg by itself: the same code, other classes. */
function ownCopyOfPg(): typeof pg {
  const require = createRequire(import.meta.url)
  for (const path of Object.keys(require.cache)) {
    if (/[/\\]node_modules[/\\]pg(-pool|-protocol)?[/\\]/.test(path)) delete require.cache[path]
  }
  return require('pg')
}
