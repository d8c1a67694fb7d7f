import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { inbox, inboxTable } from '../../../src/webhooks/index.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
let pool: pg.Pool
let client: pg.PoolClient
beforeEach(async () => {
  database = await createTestDatabase('inbox')
  pool = new pg.Pool({ ...database.connection, max: 10 })
  // Its connections may still be closing when the database is dropped.
  pool.on('error', () => undefined)
  await pool.query(inboxTable)
  client = await pool.connect()
})
afterEach(async () => {
  client.release()
  await pool.end()
  await database.drop()
})

/** Notes an id and adds to a balance, as a receiver would; what `fail` throws undoes both. */
async function receive(id: string, fail?: Error): Promise<boolean> {
  const tx = await pool.connect()
  try {
    await tx.query('begin')
    const isNew = await inbox(tx, id)
    if (isNew) await tx.query('insert into effects values ($1)', [id])
    if (fail) throw fail
    await tx.query('commit')
    return isNew
  } catch (error) {
    await tx.query('rollback')
    throw error
  } finally {
    tx.release()
  }
}

async function effects(): Promise<number> {
  const { rows } = await pool.query('select count(*)::int as count from effects')
  return rows[0].count
}

test('the table can be made twice, and an id is new once', async () => {
  await pool.query(inboxTable)
  expect(await inbox(client, 'a')).toBe(true)
  expect(await inbox(client, 'a')).toBe(false)
  expect(await inbox(client, 'b')).toBe(true)
})

test('senders are kept apart', async () => {
  expect(await inbox(client, 'a')).toBe(true)
  expect(await inbox(client, 'a', { source: 'billing' })).toBe(true)
  expect(await inbox(client, 'a', { source: 'billing' })).toBe(false)
})

test('what is rolled back is new again', async () => {
  await pool.query('create table effects (id text)')
  await expect(receive('a', new Error('the process died'))).rejects.toThrow('the process died')
  expect(await receive('a')).toBe(true)
  expect(await receive('a')).toBe(false)
  expect(await effects()).toBe(1)
})

test('of many that come at once, one has an effect, also when the first is undone', async () => {
  await pool.query('create table effects (id text)')
  const failing = receive('a', new Error('undone'))
  const others = Array.from({ length: 8 }, () => receive('a'))
  await expect(failing).rejects.toThrow('undone')
  expect((await Promise.all(others)).filter((isNew) => isNew)).toHaveLength(1)
  expect(await effects()).toBe(1)
})

test('no id is no webhook', async () => {
  await expect(inbox(client, '')).rejects.toThrow('Expected id to be the id of a webhook')
  await expect(inbox(client, undefined as unknown as string)).rejects.toThrow('Expected id to be')
})
