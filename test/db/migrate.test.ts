import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { checkSchema, migrate } from '../../src/db/migrate.ts'
import type { PostgresDatabase } from '../../src/db/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { createSignal } from '../support/signal.ts'

let testDatabase: TestDatabase
let database: PostgresDatabase
let directory: URL
const directories: string[] = []
let schemas = 0

beforeAll(async () => {
  testDatabase = await createTestDatabase('migrate')
})

afterAll(async () => {
  await testDatabase?.drop()
  for (const path of directories) await rm(path, { recursive: true })
})

beforeEach(async () => {
  database = await testDatabase.open({ schema: `schema_${++schemas}` })
  directory = await folder({
    '0001_initial.sql': 'create table __schema__.things (id int);\ncreate index on __schema__.things (id)',
    '0002_more.sql': `insert into __schema__.things select 1 -- '$&' and ::text stay\n;`,
  })
})

async function folder(files: Record<string, string>): Promise<URL> {
  const path = await mkdtemp(join(tmpdir(), 'posthorn-migrations-'))
  directories.push(path)
  for (const [name, text] of Object.entries(files)) await writeFile(join(path, name), text)
  return pathToFileURL(path)
}

async function change(file: string, text: string): Promise<void> {
  await writeFile(new URL(file, `${directory}/`), text)
}

const things = async () => (await database.query(`select id from ${database.schema}.things`)).rows
const ledger = async () =>
  (await database.query(`select number, name from ${database.schema}.migrations order by number`)).rows

test('applies what is pending, once, in order', async () => {
  await expect(migrate(database, { directory })).resolves.toMatchObject({
    applied: ['0001_initial', '0002_more'],
    pending: [],
  })
  await expect(migrate(database, { directory })).resolves.toEqual({ applied: [], pending: [], sql: '' })
  expect(await things()).toEqual([{ id: 1 }])
  await change('0003_third.sql', 'insert into __schema__.things values (3);')
  await expect(migrate(database, { directory })).resolves.toMatchObject({ applied: ['0003_third'] })
  expect(await ledger()).toEqual([
    { number: 1, name: '0001_initial' },
    { number: 2, name: '0002_more' },
    { number: 3, name: '0003_third' },
  ])
})

test('the SQL files of a folder are the parts of one migration', async () => {
  const parts = new URL('0003_parts/', `${directory}/`)
  await mkdir(parts)
  await writeFile(
    new URL('02_fill.sql', parts),
    'insert into __schema__.others select id from __schema__.things;',
  )
  await writeFile(new URL('01_make.sql', parts), 'create table __schema__.others (id int);')
  await expect(migrate(database, { directory })).resolves.toMatchObject({
    applied: ['0001_initial', '0002_more', '0003_parts'],
  })
  const { rows } = await database.query(`select id from ${database.schema}.others`)
  expect(rows).toEqual([{ id: 1 }])
})

test('eight processes that start at once apply each migration exactly once', async () => {
  const { schema } = database
  const databases = await Promise.all(
    Array.from({ length: 8 }, () => testDatabase.open({ schema: schema.slice(1, -1) })),
  )
  const results = await Promise.all(databases.map((each) => migrate(each, { directory })))
  expect(results.flatMap(({ applied }) => applied).sort()).toEqual(['0001_initial', '0002_more'])
  expect(await things()).toEqual([{ id: 1 }])
  await Promise.all(databases.map((each) => each.close()))
})

test('a migration that fails leaves nothing, and those before it stay', async () => {
  await change('0002_more.sql', 'insert into __schema__.things values (2); select 1 / 0;')
  await expect(migrate(database, { directory })).rejects.toMatchObject({ code: '22012' })
  expect(await things()).toEqual([])
  expect(await ledger()).toEqual([{ number: 1, name: '0001_initial' }])
})

test('a migration may take longer than a statement otherwise may', async () => {
  const hasty = await testDatabase.open({
    schema: database.schema.slice(1, -1),
    statementTimeoutMs: 800,
    idleInTransactionMs: 800,
  })
  await change('0003_slow.sql', 'select pg_sleep(1.2);')
  await change('0004_alone.sql', '-- no transaction\nselect pg_sleep(1.2);')
  await expect(migrate(hasty, { directory })).resolves.toMatchObject({ applied: { length: 4 } })
})

test('gives up after waiting for another process', async () => {
  const began = createSignal()
  const done = createSignal()
  const other = database.transaction(async (tx) => {
    const key = `posthorn migrations of ${database.schema}`
    await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [key])
    began.give()
    await done.given
  })
  await began.given
  await expect(migrate(database, { directory, lockWaitMs: 100 })).rejects.toMatchObject({
    code: 'MIGRATION_LOCKED',
  })
  done.give()
  await other
  await expect(migrate(database, { directory })).resolves.toMatchObject({ applied: { length: 2 } })
})

describe('a dry run', () => {
  test('applies nothing', async () => {
    const { applied, pending } = await migrate(database, { directory, dryRun: true })
    expect({ applied, pending }).toEqual({ applied: [], pending: ['0001_initial', '0002_more'] })
    const { rows } = await database.query('select to_regnamespace($1) is null as absent', [database.schema])
    expect(rows).toEqual([{ absent: true }])
  })

  test('gives SQL that does the same by hand', async () => {
    const { sql } = await migrate(database, { directory, dryRun: true })
    expect(sql).toContain(`-- '$&' and ::text stay`)
    expect(sql).not.toContain('__schema__')
    await database.query(sql)
    await expect(migrate(database, { directory })).resolves.toMatchObject({ applied: [] })
    await expect(checkSchema(database, { directory })).resolves.toBeUndefined()
    expect(await things()).toEqual([{ id: 1 }])
  })
})

describe('a migration without a transaction', () => {
  test('builds an index concurrently while other processes wait for their turn', async () => {
    await change(
      '0003_index.sql',
      `-- no transaction
-- One statement at a time.
drop index concurrently if exists __schema__.things_by_id;
create index concurrently things_by_id on __schema__.things (id);
`,
    )
    const { schema } = database
    const databases = await Promise.all(
      Array.from({ length: 4 }, () => testDatabase.open({ schema: schema.slice(1, -1) })),
    )
    const results = await Promise.all(databases.map((each) => migrate(each, { directory })))
    expect(results.flatMap(({ applied }) => applied).sort()).toEqual([
      '0001_initial',
      '0002_more',
      '0003_index',
    ])
    const { rows } = await database.query(
      'select indisvalid from pg_index where indexrelid = to_regclass($1)',
      [`${schema}.things_by_id`],
    )
    expect(rows).toEqual([{ indisvalid: true }])
  })

  test('is not in the ledger when it fails', async () => {
    await change('0003_index.sql', '-- no transaction\ncreate index concurrently on __schema__.missing (id);')
    await expect(migrate(database, { directory })).rejects.toMatchObject({ code: '42P01' })
    expect(await ledger()).toHaveLength(2)
  })
})

describe('a schema that does not fit the code', () => {
  test('is refused when it is newer', async () => {
    await migrate(database, { directory })
    const older = await folder({ '0001_initial.sql': 'create table __schema__.things (id int);' })
    const refusal = { code: 'SCHEMA_NEWER', details: { found: 2, known: 1 } }
    await expect(migrate(database, { directory: older })).rejects.toMatchObject(refusal)
    await expect(checkSchema(database, { directory: older })).rejects.toMatchObject(refusal)
  })

  test('is refused when an applied migration has changed, but not for its line ends', async () => {
    await migrate(database, { directory })
    await change(
      '0001_initial.sql',
      'create table __schema__.things (id int);\r\ncreate index on __schema__.things (id)\r\n',
    )
    await expect(checkSchema(database, { directory })).resolves.toBeUndefined()
    await change('0001_initial.sql', 'create table __schema__.things (id bigint);')
    await expect(migrate(database, { directory })).rejects.toMatchObject({
      code: 'MIGRATION_CHANGED',
      details: { name: '0001_initial' },
    })
  })

  test('is refused when migrations are pending', async () => {
    await expect(checkSchema(database, { directory })).rejects.toMatchObject({
      code: 'SCHEMA_MISSING',
      details: { missing: '0001_initial, 0002_more' },
    })
  })
})

test.each(['0004_gap.sql', '0002_twice.sql', '3_short.sql'])(
  'a folder with %s in it is refused',
  async (file) => {
    await change(file, 'select 1;')
    await expect(migrate(database, { directory })).rejects.toMatchObject({
      code: 'BAD_OPTION',
      details: { value: expect.any(String) },
    })
  },
)

test('a role that may not create schemas can migrate one made for it', async () => {
  const { schema } = database
  const role = `posthorn_limited_${process.pid}`
  await database.query(`create schema ${schema}`)
  await database.query(`create role ${role}`)
  try {
    await database.query(`grant usage, create on schema ${schema} to ${role}`)
    await database.query(`alter database ${testDatabase.database} set role = ${role}`)
    const limited = await testDatabase.open({ schema: schema.slice(1, -1) })
    await expect(migrate(limited, { directory })).resolves.toMatchObject({ applied: { length: 2 } })
    await limited.close()
  } finally {
    await database.query(`alter database ${testDatabase.database} reset role`)
    await database.query(`drop owned by ${role}`)
    await database.query(`drop role ${role}`)
  }
})
