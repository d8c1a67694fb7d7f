import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Loan } from '../../src/db/loan.ts'
import type { PostgresDatabase } from '../../src/db/postgres.ts'
import { openPostgres } from '../../src/db/postgres.ts'
import { runOnce } from '../../src/db/transaction.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { startProxy, type TestProxy } from '../support/proxy.ts'
import { createSignal, eventually } from '../support/signal.ts'

let testDatabase: TestDatabase
let database: PostgresDatabase
let proxy: TestProxy

beforeAll(async () => {
  testDatabase = await createTestDatabase('transaction')
  database = await testDatabase.open()
  proxy = await startProxy(testDatabase.connection)
  await database.query('create table notes (id int primary key, note text)')
})

afterAll(async () => {
  await testDatabase?.drop()
  await proxy?.close()
})

async function noteOf(id: number): Promise<unknown> {
  const { rows } = await database.query('select note from notes where id = $1', [id])
  return rows[0]?.note
}

test('what work did is there once it has committed, and work returns through', async () => {
  const result = await database.transaction(async (tx) => {
    await tx.query('insert into notes values ($1, $2)', [1, 'kept'])
    expect(await noteOf(1)).toBeUndefined()
    return 'result'
  })
  expect(result).toBe('result')
  expect(await noteOf(1)).toBe('kept')
})

test('an error of work undoes all and reaches the caller as it is', async () => {
  const broken = new Error('broken')
  const failing = database.transaction(async (tx) => {
    await tx.query('insert into notes values (2, null)')
    throw broken
  })
  await expect(failing).rejects.toBe(broken)
  expect(await noteOf(2)).toBeUndefined()
})

test('a commit that was answered with ROLLBACK is reported', async () => {
  const swallowing = database.transaction(async (tx) => {
    await tx.query('insert into notes values (3, null)')
    await tx.query('select 1 / 0').catch(() => undefined)
  })
  await expect(swallowing).rejects.toMatchObject({ code: 'TRANSACTION_ROLLED_BACK' })
  expect(await noteOf(3)).toBeUndefined()
})

test('an error that COMMIT itself finds reaches the caller', async () => {
  await database.query('create table deferred (id int unique deferrable initially deferred)')
  const failing = database.transaction((tx) => tx.query('insert into deferred values (1), (1)'))
  await expect(failing).rejects.toMatchObject({ code: '23505' })
})

test('commits are flushed unless the transaction says that they need not be', async () => {
  const setting = async (durable?: boolean) => {
    const show = 'show synchronous_commit'
    const { rows } = await database.transaction(
      (tx) => tx.query(show),
      durable === undefined ? {} : { durable },
    )
    return rows[0]?.synchronous_commit
  }
  expect(await setting()).toBe('on')
  expect(await setting(false)).toBe('off')
  expect(await setting(true)).toBe('on')
})

test('transactions are read committed, whatever the database prefers', async () => {
  await database.query(
    `alter database ${testDatabase.database} set default_transaction_isolation = serializable`,
  )
  const strict = await testDatabase.open()
  const { rows } = await strict.transaction((tx) => tx.query('show transaction_isolation'))
  expect(rows).toEqual([{ transaction_isolation: 'read committed' }])
  await database.query(`alter database ${testDatabase.database} reset default_transaction_isolation`)
})

test('a transaction that is over runs no more statements', async () => {
  const one = await testDatabase.open({ poolMax: 1 })
  const tx = await one.transaction(async (tx) => tx)
  await expect(tx.query('select 1')).rejects.toMatchObject({ code: 'TRANSACTION_ENDED' })
  await expect(tx.run({ name: 'late', text: 'select 1' }, [])).rejects.toMatchObject({
    code: 'TRANSACTION_ENDED',
  })
})

describe('conflicts', () => {
  test('of two transactions that deadlock, the loser runs again, and both commit', async () => {
    await database.query(`insert into notes values (10, ''), (11, '')`)
    const locked = [createSignal(), createSignal()] as const
    let runs = 0
    const append = (first: number, second: number, mine: 0 | 1) =>
      database.transaction(async (tx) => {
        runs++
        await tx.query(`update notes set note = note || 'x' where id = $1`, [first])
        locked[mine].give()
        await locked[1 - mine]?.given
        await tx.query(`update notes set note = note || 'x' where id = $1`, [second])
      })
    await Promise.all([append(10, 11, 0), append(11, 10, 1)])
    // One more each time that the loser is back before the other has noticed that it may go on.
    expect(runs).toBeGreaterThanOrEqual(3)
    expect([await noteOf(10), await noteOf(11)]).toEqual(['xx', 'xx'])
  })

  test.each(['40001', '40P01'])('of kind %s are tried six times, then surface', async (code) => {
    let runs = 0
    const conflicting = database.transaction(async (tx) => {
      runs++
      await tx.query(`do $$ begin raise exception 'conflict' using errcode = '${code}'; end $$`)
    })
    await expect(conflicting).rejects.toMatchObject({ code })
    expect(runs).toBe(6)
  })

  test('of a single statement are tried again too', async () => {
    await database.query(`create sequence tries`)
    await database.query(`
      create function flaky() returns int language plpgsql as $$ begin
        if nextval('tries') < 4 then raise exception 'conflict' using errcode = '40P01'; end if;
        return 7;
      end $$`)
    expect(await database.run({ name: 'flaky', text: 'select flaky()' }, [])).toEqual([[7]])
  })

  test('are the only errors that run work again', async () => {
    let runs = 0
    const failing = database.transaction(async (tx) => {
      runs++
      await tx.query('select 1 / 0')
    })
    await expect(failing).rejects.toMatchObject({ code: '22012' })
    expect(runs).toBe(1)
  })
})

describe('a backend that is terminated in mid-transaction', () => {
  test('leaves nothing visible, runs no later statement, and leaves the pool whole', async () => {
    const one = await testDatabase.open({ poolMax: 1 })
    const killed = one.transaction(async (tx) => {
      await tx.query('insert into notes values (20, null)')
      const { rows } = await tx.query('select pg_backend_pid() as pid')
      await database.query('select pg_terminate_backend($1)', [rows[0]?.pid])
      await tx.query('select pg_sleep(5)').catch(() => undefined)
      await tx.query('insert into notes values (21, null)')
    })
    await expect(killed).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
    expect([await noteOf(20), await noteOf(21)]).toEqual([undefined, undefined])
    expect((await one.query('select 1 as n')).rows).toEqual([{ n: 1 }])
  })

  test('is not taken for a commit of unknown outcome when work did not mind', async () => {
    const killed = database.transaction(async (tx) => {
      await tx.query('insert into notes values (22, null)')
      await tx.query('select pg_terminate_backend(pg_backend_pid())').catch(() => undefined)
    })
    await expect(killed).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
    expect(await noteOf(22)).toBeUndefined()
  })
})

describe('a connection that is cut at COMMIT', () => {
  test.each([
    { when: 'before', id: 30, note: undefined },
    { when: 'after', id: 31, note: 'kept' },
  ] as const)('$when the server has seen it has an unknown outcome', async ({ when, id, note }) => {
    const through = await openPostgres({ connection: proxy.connection, poolMax: 1 })
    let runs = 0
    const cut = through.transaction(async (tx) => {
      runs++
      await tx.query('insert into notes values ($1, $2)', [id, 'kept'])
      proxy.cutAt('commit', when)
    })
    await expect(cut).rejects.toMatchObject({ code: 'COMMIT_UNKNOWN' })
    expect(runs).toBe(1)
    expect(await noteOf(id)).toBe(note)
    expect((await through.query('select 1 as n')).rows).toEqual([{ n: 1 }])
    await through.close()
  })

  test('a COMMIT that is never answered has an unknown outcome as well', async () => {
    const through = await openPostgres({ connection: proxy.connection, poolMax: 1 })
    const silent = through.transaction(async (tx) => {
      await tx.query('select 1')
      proxy.blackhole()
    })
    await expect(silent).rejects.toMatchObject({ code: 'COMMIT_UNKNOWN' })
    proxy.heal()
    // Whoever comes while the server counts as gone waits for a new connection for a fifth of a second only.
    await eventually('the database answers again', () =>
      through.query('select 1').then(
        () => true,
        () => false,
      ),
    )
    await through.close()
  })
})

test('a rollback that fails does not hide the first error, and its connection is not used again', async () => {
  const through = await openPostgres({ connection: proxy.connection, poolMax: 1 })
  const before = await through.query('select pg_backend_pid() as pid')
  const failing = through.transaction(async (tx) => {
    proxy.cutAt('rollback', 'before')
    await tx.query('select 1 / 0')
  })
  await expect(failing).rejects.toMatchObject({ code: '22012' })
  expect((await through.query('select pg_backend_pid() as pid')).rows).not.toEqual(before.rows)
  await through.close()
})

describe('a transaction of one statement', () => {
  const statement = (name: string, text: string) => ({ name, text })

  test('that COMMIT refuses has failed, and nobody need wonder', async () => {
    await database.query('create table later (id int unique deferrable initially deferred)')
    const failing = database.once(statement('later', 'insert into later values (1), (1)'), [], {})
    await expect(failing).rejects.toMatchObject({ code: '23505' })
  })

  // The COMMIT behind it is unread then, which resets the socket: the server's last word may not arrive.
  test('whose backend is terminated before it comes to COMMIT has done nothing', async () => {
    const text = `with note as (insert into notes values (41, 'lost')) select pg_terminate_backend(pg_backend_pid()), pg_sleep(5)`
    const terminated = database.once(statement('terminated', text), [], {})
    await expect(terminated).rejects.toMatchObject({
      code: expect.stringMatching(/^(DATABASE_UNAVAILABLE|COMMIT_UNKNOWN)$/),
    })
    expect(await noteOf(41)).toBeUndefined()
  })

  test('has failed for certain when the server says that it gave up before COMMIT', async () => {
    const last = Object.assign(new Error('terminating connection'), { severity: 'FATAL', code: '57P01' })
    const answers = [
      Promise.resolve({}),
      Promise.reject(last),
      Promise.reject(new Error('Connection terminated')),
    ]
    const together = (submit: () => unknown) => submit()
    const loan = { query: () => answers.shift(), together } as unknown as Loan
    const settings = {
      begin: 'begin',
      timeoutMs: undefined,
      readOnly: false,
      submission: () => ({ text: '' }),
    }
    await expect(runOnce(loan, settings, { text: 'select 1' })).rejects.toMatchObject({
      code: 'DATABASE_UNAVAILABLE',
    })
  })

  test('that is cut when all of it was sent has an unknown outcome', async () => {
    const through = await openPostgres({ connection: proxy.connection, poolMax: 1 })
    proxy.cutAt('insert into notes values (40', 'after')
    const cut = through.once(statement('cut', `insert into notes values (40, 'kept')`), [], {})
    await expect(cut).rejects.toMatchObject({ code: 'COMMIT_UNKNOWN' })
    await through.close()
  })
})
