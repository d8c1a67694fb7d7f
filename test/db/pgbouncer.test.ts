import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openPostgres } from '../../src/db/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { hasPgBouncer, type PgBouncer, startPgBouncer } from '../support/pgbouncer.ts'
import { createSignal, eventually } from '../support/signal.ts'

const settings = [
  { kind: 'refuses startup settings', extra: '' },
  {
    kind: 'drops startup settings',
    extra: 'ignore_startup_parameters = statement_timeout, idle_in_transaction_session_timeout',
  },
]

if (!hasPgBouncer) console.log('pgbouncer is not installed: its tests are skipped')

describe.skipIf(!hasPgBouncer).each(settings)(
  'through PgBouncer in transaction mode that $kind',
  ({ extra }) => {
    let testDatabase: TestDatabase
    let bouncer: PgBouncer

    beforeAll(async () => {
      testDatabase = await createTestDatabase('pgbouncer')
      bouncer = await startPgBouncer(testDatabase.connection, extra)
    })

    afterAll(async () => {
      await bouncer?.stop()
      await testDatabase?.drop()
    })

    const open = (options = {}) =>
      openPostgres({ ...options, connection: bouncer.connection, prepared: false })

    test('statements and transactions work side by side', async () => {
      const database = await open()
      await database.query('create table notes (id int)')
      const insert = { name: 'insert', text: 'insert into notes values ($1)' }
      const ids = Array.from({ length: 60 }, (_, id) => id)
      await Promise.all(
        ids.map((id) =>
          id % 2 ? database.run(insert, [id]) : database.transaction((tx) => tx.run(insert, [id])),
        ),
      )
      const { rows } = await database.query<{ id: number }>('select id from notes order by id')
      expect(rows.map(({ id }) => id)).toEqual(ids)
      await database.close()
    })

    test('transactions have their limits, which stay in them', async () => {
      const database = await open({ statementTimeoutMs: 1_000, poolMax: 5 })
      await expect(database.transaction((tx) => tx.query('select pg_sleep(5)'))).rejects.toMatchObject({
        code: 'STATEMENT_TIMEOUT',
      })
      await database.transaction((tx) => tx.query('select 1'), { durable: false })
      const show = `select current_setting('statement_timeout') as limit, current_setting('synchronous_commit') as sync`
      const all = await Promise.all(Array.from({ length: 5 }, () => database.query(show)))
      for (const { rows } of all) expect(rows).toEqual([{ limit: '0', sync: 'on' }])
      await database.close()
    })

    test('listening says once that it hears nothing, tells a gap, and goes on', async () => {
      const warnings: string[] = []
      const log = { info: () => undefined, warn: (_: object, message: string) => void warnings.push(message) }
      const database = await open({ log })
      const gapTwice = createSignal()
      let gaps = 0
      const listening = await database.listen('news', {
        onNotify: () => undefined,
        onGap: () => {
          if (++gaps === 2) gapTwice.give()
        },
      })
      await gapTwice.given
      expect(warnings).toEqual([expect.stringContaining('polling alone')])
      await listening.stop()
      await database.close()
    })

    test('a server connection that dies in mid-transaction leaves nothing behind', async () => {
      const database = await open({ poolMax: 2 })
      const direct = await testDatabase.open()
      await direct.query('create table cut (id int)')
      const killed = database.transaction(async (tx) => {
        await tx.query('insert into cut values (1)')
        const { rows } = await tx.query('select pg_backend_pid() as pid')
        await direct.query('select pg_terminate_backend($1)', [rows[0]?.pid])
        await tx.query('insert into cut values (2)')
      })
      await expect(killed).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
      await eventually(
        'nothing of it is there',
        async () => (await direct.query('select id from cut')).rows.length === 0,
      )
      expect((await database.query('select 1 as n')).rows).toEqual([{ n: 1 }])
      await database.close()
    })
  },
)
