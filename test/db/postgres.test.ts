import pg from 'pg'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openPostgres, type PostgresDatabase } from '../../src/db/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { startProxy, type TestProxy } from '../support/proxy.ts'
import { createSignal } from '../support/signal.ts'

let testDatabase: TestDatabase
let database: PostgresDatabase
let proxy: TestProxy

beforeAll(async () => {
  testDatabase = await createTestDatabase('postgres')
  database = await testDatabase.open()
  proxy = await startProxy(testDatabase.connection)
})

afterAll(async () => {
  await testDatabase?.drop()
  await proxy?.close()
})

describe('values', () => {
  test('come back as exact JavaScript values', async () => {
    const text = `
      select 9007199254740991::int8, 9007199254740993::int8, '{1,null,9007199254740991}'::int8[],
        array['a', 'b"c', null, 'd,e', ''], '2026-11-15 19:37:00.123456+05:30'::timestamptz, true, 7::int2,
        1.5::float8, '{"a":[1]}'::jsonb, null::int8, array[false, true], array['2026-11-15 00:00Z'::timestamptz]`
    const [row] = await database.run({ name: 'values', text }, [])
    expect(row).toEqual([
      9007199254740991,
      9007199254740993n,
      [1, null, 9007199254740991],
      ['a', 'b"c', null, 'd,e', ''],
      new Date('2026-11-15T14:07:00.123Z'),
      true,
      7,
      1.5,
      { a: [1] },
      null,
      [false, true],
      [new Date('2026-11-15T00:00:00Z')],
    ])
  })

  test('go in as arrays and dates, also where the statement is prepared', async () => {
    const statement = {
      name: 'echo',
      text: 'select $1::int8[], $2::text[], $3::timestamptz, $4::text',
    }
    const at = new Date('2026-11-15T12:00:00.001Z')
    for (let round = 0; round < 2; round++) {
      const rows = await database.run(statement, [[1, 2], ['{"x"}', 'y\\'], at, null])
      expect(rows).toEqual([[[1, 2], ['{"x"}', 'y\\'], at, null]])
    }
  })

  test('do not depend on parsers that the application has set, nor set any', async () => {
    const before = pg.types.getTypeParser(1184)
    pg.types.setTypeParser(1184, (text) => `changed ${text}`)
    try {
      const { rows } = await database.query(`select '2026-11-15 00:00Z'::timestamptz as at, count(*) as n`)
      expect(rows).toEqual([{ at: new Date('2026-11-15T00:00:00Z'), n: 1 }])
    } finally {
      pg.types.setTypeParser(1184, before)
    }
    expect(pg.types.getTypeParser(20)('5')).toBe('5')
  })
})

describe('prepared statements', () => {
  const statement = { name: 'own_plan', text: 'select count(*) from pg_prepared_statements where name = $1' }

  test('are named on the server', async () => {
    expect(await database.run(statement, ['own_plan'])).toEqual([[1]])
  })

  test('have no name when prepared is off', async () => {
    const plain = await testDatabase.open({ prepared: false })
    expect(await plain.run(statement, ['own_plan'])).toEqual([[0]])
    expect(await plain.transaction((tx) => tx.run(statement, ['own_plan']))).toEqual([[0]])
  })

  test('recover after the table under them has changed', async () => {
    const one = await testDatabase.open({ poolMax: 1 })
    await one.query('create table shifting (a int)')
    await one.query('insert into shifting values (1)')
    const select = { name: 'shifting', text: 'select a from shifting' }
    await one.run(select, [])
    await one.query('alter table shifting alter column a type text')
    await expect(one.run(select, [])).rejects.toMatchObject({ code: '0A000' })
    expect(await one.run(select, [])).toEqual([['1']])
  })
})

describe('limits', () => {
  test('a statement that runs too long fails, and its connection serves on', async () => {
    const one = await testDatabase.open({ poolMax: 1, statementTimeoutMs: 1_500 })
    const before = await one.query('select pg_backend_pid() as pid')
    await expect(one.query('select pg_sleep(5)')).rejects.toMatchObject({ code: 'STATEMENT_TIMEOUT' })
    await expect(one.transaction((tx) => tx.query('select pg_sleep(5)'))).rejects.toMatchObject({
      code: 'STATEMENT_TIMEOUT',
    })
    expect((await one.query('select pg_backend_pid() as pid')).rows).toEqual(before.rows)
  })

  test('a server that stops answering costs the connection, and the pool is whole again afterwards', async () => {
    const through = await openPostgres({
      connection: proxy.connection,
      poolMax: 1,
      statementTimeoutMs: 1_500,
    })
    const before = await through.query('select pg_backend_pid() as pid')
    proxy.blackhole()
    await expect(through.query('select 1')).rejects.toMatchObject({
      code: 'DATABASE_UNAVAILABLE',
      details: { reason: 'Connection terminated unexpectedly' },
    })
    proxy.heal()
    expect((await through.query('select pg_backend_pid() as pid')).rows).not.toEqual(before.rows)
    await through.close()
  })

  test('a transaction may have its own limit', async () => {
    const one = await testDatabase.open({ statementTimeoutMs: 500 })
    const slow = () => one.transaction((tx) => tx.query('select pg_sleep(0.7)'), { statementTimeoutMs: 0 })
    await expect(slow()).resolves.toMatchObject({ rowCount: 1 })
  })

  test('waiting for a free connection ends', async () => {
    const one = await testDatabase.open({ poolMax: 1, checkoutTimeoutMs: 1_000 })
    const done = createSignal()
    const began = createSignal()
    const holder = one.transaction(async () => {
      began.give()
      await done.given
    })
    await began.given
    await expect(one.query('select 1')).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
    done.give()
    await holder
    await expect(one.query('select 1')).resolves.toMatchObject({ rowCount: 1 })
  })
})

describe('a lost connection', () => {
  test('while idle is logged and replaced', async () => {
    const warned = createSignal()
    const one = await testDatabase.open({ poolMax: 1, log: { info: () => undefined, warn: warned.give } })
    const { rows } = await one.query<{ pid: number }>('select pg_backend_pid() as pid')
    await database.query('select pg_terminate_backend($1)', [rows[0]?.pid])
    await warned.given
    await expect(one.query('select 1')).resolves.toMatchObject({ rowCount: 1 })
  })

  test('while idle is one short line in the log, without the driver’s settings', async () => {
    const warned = createSignal()
    const lines: string[] = []
    const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) })
    const warn = (about: object, message: string) => {
      log.warn(about, message)
      warned.give()
    }
    const one = await testDatabase.open({ poolMax: 1, log: { info: () => undefined, warn } })
    const { rows } = await one.query<{ pid: number }>('select pg_backend_pid() as pid')
    await database.query('select pg_terminate_backend($1)', [rows[0]?.pid])
    await warned.given
    expect(JSON.parse(lines[0] as string)).toMatchObject({ code: '57P01', reason: expect.any(String) })
    expect(lines[0]?.length).toBeLessThan(1_000)
  })

  test('during a read makes the database unavailable', async () => {
    const through = await openPostgres({ connection: proxy.connection })
    proxy.cutAt('select 4711', 'before')
    await expect(through.query('select 4711')).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
    await through.close()
  })

  test('during a write outside a transaction leaves its outcome unknown', async () => {
    const through = await openPostgres({ connection: proxy.connection })
    await through.query('create table written (id int)')
    proxy.cutAt('insert into written', 'after')
    await expect(through.query('insert into written values (1)')).rejects.toMatchObject({
      code: 'COMMIT_UNKNOWN',
    })
    expect((await through.query('select id from written')).rows).toEqual([{ id: 1 }])
    await through.close()
  })
})

describe('opening', () => {
  test('tells version and durability', async () => {
    expect(database.serverVersion).toMatch(/^\d+(\.\d+)?/)
    expect(database.durability).toBe('synced')
    await database.query(`alter database ${testDatabase.database} set synchronous_commit = off`)
    const lax = await testDatabase.open()
    expect(lax.durability).toBe('unsafe')
    await database.query(`alter database ${testDatabase.database} reset synchronous_commit`)
  })

  test.each(['Bad', 'a-b', '1a', '', 'a"; drop schema public', 'x'.repeat(64), 'pg_mine'])(
    'refuses the schema name %j and says so',
    async (schema) => {
      await expect(testDatabase.open({ schema })).rejects.toMatchObject({
        code: 'BAD_OPTION',
        details: { option: 'schema', value: schema },
      })
    },
  )

  test('does not repeat a password from an address that it cannot read', async () => {
    const error = await openPostgres({ connection: 'postgres://me:hunter2@host:port/db' }).catch(
      (caught) => caught,
    )
    expect(error).toMatchObject({ code: 'BAD_OPTION' })
    expect(`${JSON.stringify(error)} ${error.message} ${error.stack} ${error.cause}`).not.toContain('hunter2')
  })

  test('fails within two seconds where nobody answers', async () => {
    const closed = await startProxy(testDatabase.connection)
    await closed.close()
    await expect(openPostgres({ connection: closed.connection })).rejects.toMatchObject({
      code: 'DATABASE_UNAVAILABLE',
      cause: { code: 'ECONNREFUSED' },
    })
    const silent = await startProxy(testDatabase.connection)
    silent.blackhole()
    const began = performance.now()
    await expect(openPostgres({ connection: silent.connection })).rejects.toMatchObject({
      code: 'DATABASE_UNAVAILABLE',
    })
    // Two seconds, on a machine that is not busy. A free connection would be waited for for ten.
    expect(performance.now() - began).toBeLessThan(9_000)
    await silent.close()
  })

  test('fails for a database that does not exist', async () => {
    const connection = { ...testDatabase.connection, database: 'posthorn_nowhere' }
    await expect(openPostgres({ connection })).rejects.toMatchObject({
      code: 'DATABASE_UNAVAILABLE',
      cause: { code: '3D000' },
    })
  })
})

describe("the application's own pool", () => {
  test('is used and left open', async () => {
    const pool = new pg.Pool({ ...testDatabase.connection, max: 1 })
    const first = await openPostgres({ pool })
    const second = await openPostgres({ pool, schema: 'other' })
    expect(await first.run({ name: 'same', text: 'select 1' }, [])).toEqual([[1]])
    expect(await second.run({ name: 'same', text: 'select 2' }, [])).toEqual([[2]])
    const { rows } = await first.transaction((tx) => tx.query('show statement_timeout'))
    expect(rows).toEqual([{ statement_timeout: '10s' }])
    await first.close()
    await second.close()
    expect((await pool.query('select 3 as n')).rows).toEqual([{ n: 3 }])
    expect(pool.listenerCount('error')).toBe(0)
    await pool.end()
  })
})

describe('closing', () => {
  test('is safe twice and final', async () => {
    const closed = await testDatabase.open()
    await Promise.all([closed.close(), closed.close()])
    await expect(closed.query('select 1')).rejects.toMatchObject({ code: 'STOPPED' })
    await expect(
      closed.listen('news', { onNotify: () => undefined, onGap: () => undefined }),
    ).rejects.toMatchObject({
      code: 'STOPPED',
    })
  })

  test('waits for what is running', async () => {
    const one = await testDatabase.open()
    const slow = one.query(`select pg_sleep(0.2), 'done' as state`)
    await one.query('select 1')
    await one.close()
    expect((await slow).rows).toMatchObject([{ state: 'done' }])
  })

  test('cuts a transaction that does not come back', async () => {
    const one = await testDatabase.open({ statementTimeoutMs: 500 })
    const began = createSignal()
    const done = createSignal()
    const stuck = one.transaction(async () => {
      began.give()
      await done.given
    })
    await began.given
    await one.close()
    done.give()
    await expect(stuck).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
  })
})
