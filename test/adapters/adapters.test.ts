import { PrismaPg } from '@prisma/adapter-pg'
import { drizzle as drizzleOverPg } from 'drizzle-orm/node-postgres'
import { drizzle as drizzleOverPostgresJs } from 'drizzle-orm/postgres-js'
import knex from 'knex'
import { CamelCasePlugin, Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { fromDrizzle } from '../../src/adapters/drizzle.ts'
import { fromKnex } from '../../src/adapters/knex.ts'
import { fromKysely } from '../../src/adapters/kysely.ts'
import { fromPostgresJs } from '../../src/adapters/postgres-js.ts'
import { fromPrisma } from '../../src/adapters/prisma.ts'
import { createPosthorn } from '../../src/create.ts'
import type { Queryable } from '../../src/db/database.ts'
import type { Posthorn } from '../../src/posthorn.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { prismaClient } from './prisma-client.ts'

/** Runs work in a transaction of the library; it rolls back when the work throws. */
type InTransaction = <T>(work: (tx: Queryable) => Promise<T>) => Promise<T>

interface Library {
  readonly inTransaction: InTransaction
  end(): Promise<unknown>
}

type Connection = TestDatabase['connection']

const libraries: Record<string, (connection: Connection) => Library> = {
  'pg itself': (connection) => {
    const pool = new pg.Pool(connection)
    return { inTransaction: (work) => inPgTransaction(pool, work), end: () => pool.end() }
  },
  'postgres.js': (connection) => overPostgresJs(postgres(connection)),
  'postgres.js without array types': (connection) =>
    overPostgresJs(postgres({ ...connection, fetch_types: false })),
  'drizzle over pg': (connection) => {
    const pool = new pg.Pool(connection)
    const db = drizzleOverPg(pool)
    return { inTransaction: (work) => db.transaction((tx) => work(fromDrizzle(tx))), end: () => pool.end() }
  },
  'drizzle over postgres.js': (connection) => {
    const sql = postgres(connection)
    const db = drizzleOverPostgresJs(sql)
    return { inTransaction: (work) => db.transaction((tx) => work(fromDrizzle(tx))), end: () => sql.end() }
  },
  'kysely with a plugin that renames': (connection) => {
    const dialect = new PostgresDialect({ pool: new pg.Pool(connection) })
    const db = new Kysely<unknown>({ dialect, plugins: [new CamelCasePlugin()] })
    return {
      inTransaction: (work) => db.transaction().execute((trx) => work(fromKysely(trx))),
      end: () => db.destroy(),
    }
  },
  knex: (connection) => {
    const db = knex({ client: 'pg', connection: { ...connection } })
    return { inTransaction: (work) => db.transaction((trx) => work(fromKnex(trx))), end: () => db.destroy() }
  },
  prisma: (connection) => {
    const prisma = prismaClient(new PrismaPg({ ...connection }))
    return {
      inTransaction: (work) => prisma.$transaction((tx) => work(fromPrisma(tx))),
      end: () => prisma.$disconnect(),
    }
  },
}

let database: TestDatabase
let observer: pg.Client
let hub: Posthorn

beforeAll(async () => {
  database = await createTestDatabase('adapters')
  hub = await createPosthorn({ database: database.connection, poolMax: 3, log: false })
  observer = new pg.Client(database.connection)
  await observer.connect()
  await observer.query(`
    create table notes (
      id bigint primary key, label text, tags text[], ids bigint[], at timestamptz, times timestamptz[],
      digests bytea[], flags boolean[], flag boolean, payload text, document jsonb)`)
})

afterAll(async () => {
  await hub.stop()
  await observer.end()
  await database.drop()
})

describe.each(Object.entries(libraries))('%s', (_, open) => {
  let library: Library

  beforeEach(async () => {
    await observer.query('truncate notes')
    library = open(database.connection)
    return async () => {
      await library.end()
    }
  })

  test('values of every type arrive as they were given', async () => {
    const { rowCount } = await library.inTransaction((tx) => tx.query(insert, values))
    expect(rowCount).toBe(1)
    const { rows } = await observer.query(
      `select id::text, label, tags, ids::text[], at, times, digests, flags, flag, payload, document from notes`,
    )
    expect(rows).toEqual([stored])
  })

  test('nulls and empty lists arrive', async () => {
    await library.inTransaction((tx) =>
      tx.query(insert, [1, null, [], null, null, [null], null, null, null, null, null]),
    )
    const { rows } = await observer.query('select label, tags, ids, at, times, flag, document from notes')
    expect(rows).toEqual([
      { label: null, tags: [], ids: null, at: null, times: [null], flag: null, document: null },
    ])
  })

  test('rows come back under the names of the statement', async () => {
    const text = `select $1::bigint as note_id, $2::text as note_label, count(*)::int as row_count from notes`
    const { rows } = await library.inTransaction((tx) => tx.query(text, [2 ** 43 + 1, 'x']))
    expect(Object.keys(rows[0] ?? {})).toEqual(['note_id', 'note_label', 'row_count'])
    expect(Number(rows[0]?.note_id)).toBe(2 ** 43 + 1)
    expect(rows[0]).toMatchObject({ note_label: 'x', row_count: 0 })
  })

  test('a statement without values, and one whose text is full of traps', async () => {
    const traps = String.raw`select '?' as a, '$2 ?? \? :name' as b, '{"k":[1]}'::jsonb ? 'k' as c, $1::text || $1::text as d`
    const [plain, trapped] = await library.inTransaction(async (tx) => [
      await tx.query('select 1 as one'),
      await tx.query(traps, ['?$1']),
    ])
    expect(plain?.rows).toEqual([{ one: 1 }])
    expect(trapped?.rows).toEqual([{ a: '?', b: String.raw`$2 ?? \? :name`, c: true, d: '?$1?$1' }])
  })

  test('what was written is seen by nobody before the commit, and by all after it', async () => {
    const during = await library.inTransaction(async (tx) => {
      await tx.query('insert into notes (id) values ($1), ($2)', [1, 2])
      const { rows } = await tx.query('select count(*)::int as count from notes')
      return [rows[0]?.count, await countNotes()]
    })
    expect(during).toEqual([2, 0])
    expect(await countNotes()).toBe(2)
  })

  test('a rollback leaves nothing', async () => {
    const work = library.inTransaction(async (tx) => {
      await tx.query('insert into notes (id) values ($1)', [1])
      throw new Error('changed my mind')
    })
    await expect(work).rejects.toThrow('changed my mind')
    expect(await countNotes()).toBe(0)
  })

  test('events are published in the transaction, with every field, and only if it commits', async () => {
    const full = {
      type: 'adapter.used',
      title: 'T "quoted" \\ ?',
      tags: ['a', 'b'],
      payloadText: '{"a": "\\u0000 ? $1 \\"", "n": 12345678901234567890}',
      orderingKey: 'k',
      source: { type: 's' },
      timestamp: '2024-01-01T00:00:00.000Z',
      maxRetries: 3,
      requireRoute: false,
    }
    const published = await library.inTransaction((tx) =>
      hub.publishMany([full, { type: 'x', payload: 1 }], { tx }),
    )
    const first = published[0] as { id: number }
    expect(published.map((event) => event.replayed)).toEqual([false, false])
    const stored = await hub.event(first.id)
    expect(stored?.event).toMatchObject({
      title: full.title,
      tags: ['a', 'b'],
      payloadText: full.payloadText,
      orderingKey: 'k',
    })
    await expect(
      library.inTransaction(async (tx) => {
        const { id } = await hub.publish(
          { type: 'x', payload: 2, idempotencyKey: `rolled back ${first.id}` },
          { tx },
        )
        throw new Error(`undo ${id}`)
      }),
    ).rejects.toThrow('undo')
    expect((await hub.listEvents({ order: 'desc', limit: 1 })).events[0]?.id).toBe(
      (published[1] as { id: number }).id,
    )
  })

  test('an error of the database reaches the caller', async () => {
    const work = library.inTransaction((tx) => tx.query('insert into notes (id) values ($1), ($1)', [1]))
    await expect(work).rejects.toThrow()
    expect(await countNotes()).toBe(0)
  })
})

const awkward = ['a', 'b,c', 'd"e', String.raw`f\g`, '{}', '', ' ', 'NULL', null, "h'i", 'ä😀', '?', '$1']
const at = new Date('2024-03-15T10:00:00.123Z')
const payload = String.raw`{"b": 1, "a" : "\u0000", "n": 12345678901234567890}`

const insert = `
  insert into notes (id, label, tags, ids, at, times, digests, flags, flag, payload, document)
  values ($1::bigint, $2::text, $3::text[], $4::bigint[], $5::timestamptz, $6::timestamptz[], $7::bytea[], $8::boolean[],
    $9::boolean, $10::text, $11::text::jsonb)
  returning id`
const values = [
  2 ** 43 + 1,
  'it\'s "text" with $1 and ?',
  awkward,
  [1, 2 ** 53 - 1, null],
  at.toISOString(),
  [at, at.toISOString(), null],
  [Buffer.from([0, 92, 34, 255]), null],
  [true, false, null],
  true,
  payload,
  '{"k": [1]}',
]
const stored = {
  id: '8796093022209',
  label: values[1],
  tags: awkward,
  ids: ['1', '9007199254740991', null],
  at,
  times: [at, at, null],
  digests: [Buffer.from([0, 92, 34, 255]), null],
  flags: [true, false, null],
  flag: true,
  payload,
  document: { k: [1] },
}

async function countNotes(): Promise<number> {
  const { rows } = await observer.query<{ count: number }>('select count(*)::int as count from notes')
  return rows[0]?.count ?? -1
}

function overPostgresJs(sql: postgres.Sql): Library {
  return {
    // postgres.js types its answer as an unwrapped promise list, which is the same for one promise.
    inTransaction: <T>(work: (tx: Queryable) => Promise<T>) =>
      sql.begin((tx) => work(fromPostgresJs(tx))) as Promise<T>,
    end: () => sql.end(),
  }
}

async function inPgTransaction<T>(pool: pg.Pool, work: (tx: Queryable) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const result = await work(client)
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}

describe('a publish whose tx is no transaction', () => {
  const order = { type: 'order.created', payload: {} }
  const roots: [
    library: string,
    open: (connection: Connection) => { root: unknown; end(): Promise<unknown> },
  ][] = [
    ['Prisma', (connection) => withEnd(prismaClient(new PrismaPg({ ...connection })), '$disconnect')],
    ['postgres.js', (connection) => withEnd(postgres(connection), 'end')],
    ['Kysely', (connection) => withEnd(newKysely(connection), 'destroy')],
    ['Knex', (connection) => withEnd(knex({ client: 'pg', connection: { ...connection } }), 'destroy')],
    ['Drizzle over pg', (connection) => overPool(connection)],
    ['Drizzle over postgres.js', (connection) => overSql(connection)],
  ]
  const adapters: Record<string, (root: never) => Queryable> = {
    Prisma: fromPrisma,
    'postgres.js': fromPostgresJs,
    Kysely: fromKysely,
    Knex: fromKnex,
    'Drizzle over pg': fromDrizzle,
    'Drizzle over postgres.js': fromDrizzle,
  }

  test.each(roots)('%s: what is outside of a transaction is refused', async (library, open) => {
    const { root, end } = open(database.connection)
    try {
      const publish = async () => hub.publish(order, { tx: adapters[library]?.(root as never) as Queryable })
      await expect(publish()).rejects.toMatchObject({ code: 'BAD_OPTION', details: { option: 'tx' } })
    } finally {
      await end()
    }
  })

  test.each(roots)('%s: without its adapter the error names it', async (library, open) => {
    const { root, end } = open(database.connection)
    try {
      const adapter = `${adapters[library]?.name}\\(.*posthorn/adapters/`
      await expect(hub.publish(order, { tx: root as Queryable })).rejects.toThrow(new RegExp(adapter))
    } finally {
      await end()
    }
  })

  test('one connection of postgres.js may have begun a transaction by hand', async () => {
    const sql = postgres({ ...database.connection, max: 1 })
    try {
      await sql.unsafe('begin')
      const { id } = await hub.publish(order, { tx: fromPostgresJs(sql) })
      await sql.unsafe('rollback')
      expect(await hub.event(id)).toBeUndefined()
    } finally {
      await sql.end()
    }
  })

  test('a client that drizzle has of its own may have begun one as well', async () => {
    const client = new pg.Client(database.connection)
    await client.connect()
    try {
      await client.query('begin')
      const { id } = await hub.publish(order, { tx: fromDrizzle(drizzleOverPg(client)) })
      await client.query('rollback')
      expect(await hub.event(id)).toBeUndefined()
    } finally {
      await client.end()
    }
  })
})

function withEnd<Name extends string>(root: Readonly<Record<Name, () => Promise<unknown>>>, end: Name) {
  return { root, end: () => root[end]() }
}

function newKysely(connection: Connection) {
  return new Kysely<unknown>({ dialect: new PostgresDialect({ pool: new pg.Pool(connection) }) })
}

function overPool(connection: Connection) {
  const pool = new pg.Pool(connection)
  return { root: drizzleOverPg(pool), end: () => pool.end() }
}

function overSql(connection: Connection) {
  const sql = postgres(connection)
  return { root: drizzleOverPostgresJs(sql), end: () => sql.end() }
}
