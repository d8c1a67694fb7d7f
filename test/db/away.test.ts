import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openPostgres, type PostgresDatabase } from '../../src/db/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { startProxy, type TestProxy } from '../support/proxy.ts'
import { createSignal, eventually } from '../support/signal.ts'
import { socketsTo } from '../support/sockets.ts'

/** A server that is gone is told from one that is slow. */

let testDatabase: TestDatabase
let proxy: TestProxy
let database: PostgresDatabase
let warned: string[]

beforeEach(async () => {
  testDatabase = await createTestDatabase('away')
  proxy = await startProxy(testDatabase.connection)
  warned = []
  const log = { info: () => undefined, warn: (_: object, message: string) => void warned.push(message) }
  database = await openPostgres({ connection: proxy.connection, poolMax: 3, log })
  await database.query('create table notes (id int)')
})
afterEach(async () => {
  proxy.heal()
  await database.close()
  await testDatabase.drop()
  await proxy.close()
})

describe('a server that is gone', () => {
  test('is known within two seconds: to those who read, who write, who are in a transaction and who wait', async () => {
    await Promise.all([1, 2, 3].map(() => database.query('select pg_sleep(0.1)')))
    const inside = createSignal()
    const gone = createSignal()
    const idle = database.transaction(async (tx) => {
      await tx.query('insert into notes values (1)')
      inside.give()
      await gone.given
    })
    await inside.given
    proxy.blackhole()
    const began = performance.now()
    const calls = [
      database.query('insert into notes values (2)'),
      database.query('select 1'),
      database.query('select 2'),
      database.transaction((tx) => tx.query('select 3')),
      database.once({ name: 'late', text: 'insert into notes values (3)' }, [], {}),
    ]
    const answers = await Promise.allSettled(calls)
    gone.give()
    // Nobody has waited until the statement's own time was up.
    expect(performance.now() - began).toBeLessThan(9_000)
    // Only those that had a connection have sent anything.
    expect(answers.map((answer) => (answer.status === 'rejected' ? answer.reason.code : 'answered'))).toEqual(
      ['COMMIT_UNKNOWN', ...Array(4).fill('DATABASE_UNAVAILABLE')],
    )
    await expect(idle).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
    expect(warned).toContain('The database does not answer: its connections are cut')
  })

  test('is known at once to those who come later, and to nobody any more when it is back', async () => {
    proxy.blackhole()
    const lostAt = performance.now()
    await expect(database.query('select 1')).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
    const foundOutMs = performance.now() - lostAt
    const began = performance.now()
    const later = Array.from({ length: 200 }, () => database.query('insert into notes values (1)'))
    for (const answer of await Promise.allSettled(later))
      expect(answer).toMatchObject({ status: 'rejected', reason: { code: 'DATABASE_UNAVAILABLE' } })
    expect(performance.now() - began).toBeLessThan(foundOutMs)
    expect(database.connections.waiting).toBe(0)
    proxy.heal()
    await eventually('it answers', () =>
      database.query('select 1').then(
        () => true,
        () => false,
      ),
    )
    expect((await database.query('select id from notes')).rows).toEqual([])
  })

  test('is found again though the connection that last asked for it fell silent before it was answered', async () => {
    const isBack = () =>
      database.query('select 1').then(
        () => true,
        () => false,
      )
    proxy.blackhole()
    expect(await isBack()).toBe(false)
    proxy.heal()
    proxy.muteAt('pg_is_in_recovery')
    expect(await isBack()).toBe(false)
    await eventually('it answers', isBack)
  })

  test.each(['statement of one', 'transaction'] as const)(
    'after a %s was sent leaves its outcome unknown, and its effect where it was',
    async (what) => {
      const statement = { name: 'note', text: 'insert into notes values (7)' }
      await database.once(statement, [], {})
      proxy.blackhole('answers')
      const writing =
        what === 'transaction'
          ? database.once(statement, [], {})
          : database.query('insert into notes values (7)')
      await expect(writing).rejects.toMatchObject({ code: 'COMMIT_UNKNOWN' })
      const direct = await testDatabase.open()
      await eventually(
        'it is there',
        async () => (await direct.query('select 1 from notes')).rows.length === 2,
      )
    },
  )

  test('keeps no socket open once the database is closed', async () => {
    await database.query('select 1')
    proxy.blackhole()
    await database.close()
    await eventually('all are closed', async () => (await socketsTo(proxy.connection.port)) === 0)
  })
})

describe('a server that is there', () => {
  test('may take its time for a statement, though it says nothing meanwhile', async () => {
    const { rows } = await database.query(`select pg_sleep(3), 'done' as state`)
    expect(rows).toMatchObject([{ state: 'done' }])
    expect(warned).toEqual([])
  })

  test('may let nobody in who is new', async () => {
    const admin = new pg.Client({ ...testDatabase.connection, database: 'postgres' })
    await admin.connect()
    try {
      await admin.query(`alter database ${testDatabase.database} allow_connections false`)
      const { rows } = await database.query(`select pg_sleep(3), 'done' as state`)
      expect(rows).toMatchObject([{ state: 'done' }])
      expect(warned).toEqual([])
    } finally {
      await admin.query(`alter database ${testDatabase.database} allow_connections true`)
      await admin.end()
    }
  })

  test('is not blamed for the time that this process was held up', async () => {
    const slow = database.query(`select pg_sleep(0.1), 'done' as state`)
    await database.query('select 1')
    const until = performance.now() + 3_000
    while (performance.now() < until);
    expect((await slow).rows).toMatchObject([{ state: 'done' }])
    expect(warned).toEqual([])
  })
})
