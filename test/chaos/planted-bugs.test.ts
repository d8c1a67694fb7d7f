import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import type { Statement } from '../../src/db/database.ts'
import { readMigrations } from '../../src/db/migration-files.ts'
import type { PostgresDatabase } from '../../src/db/postgres.ts'
import { Hold } from '../../src/memory/hold.ts'
import { useEngines } from '../support/engine.ts'
import {
  changeStatement,
  outliveClaims,
  type PlantedBug,
  plantedBugs,
  replaceOnce,
  sqlOf,
} from '../support/planted-bugs.js'

/** Every statement of the product, as its module defines it. */
const defined = vi.hoisted(() => [] as ((db: { readonly schema: string }) => Statement)[])
vi.mock(import('../../src/db/database.ts'), async (original) => {
  const { defineStatement, ...rest } = await original()
  return {
    ...rest,
    defineStatement: (name, text) => {
      const statement = defineStatement(name, text)
      defined.push(statement)
      return statement
    },
  }
})

const openEngine = useEngines('planted_bugs')

beforeAll(async () => {
  for (const feature of ['engine', 'deliveries', 'memory', 'pull']) {
    const folder = fileURLToPath(new URL(`../../src/${feature}/`, import.meta.url))
    for (const file of readdirSync(folder)) await import(folder + file)
  }
})

const bugs = Object.entries(plantedBugs)
const withFunctions = bugs.filter(([, bug]) => bug.before ?? bug.functions)
const withStatements = bugs.filter(([, bug]) => bug.statements)

describe('a change of the product does not make a planted bug vanish', () => {
  test('each of them changes something that is looked at here', () => {
    const looked = [...withFunctions, ...withStatements].map(([name]) => name)
    const others = bugs.filter(([name]) => !looked.includes(name))
    expect(others.map(([name]) => name)).toEqual(['frozen-owner'])
  })

  test.each(withFunctions)('%s can be planted into a schema', async (_, bug) => {
    const { db } = await openEngine()
    const names = Object.keys(bug.functions ?? {})
    const before = await bodiesOf(db, names)
    for (const text of sqlOf(bug, { schema: db.schema, migrations: await readMigrations() }))
      await db.query(text)
    // The function as it was, but for the bug: what the migrations have made of it since stays.
    const changed = names.map((name, at) => replaceOnce(before[at] as string, changesOf(bug, name, db)))
    expect(await bodiesOf(db, names)).toEqual(changed)
  })

  test.each(withStatements)('%s can be planted into statements', async (_, bug) => {
    const { db } = await openEngine()
    const changed = defined
      .map((statement) => statement(db))
      .map((statement) => [statement.name, changeStatement(bug, statement, db.schema)] as const)
      .filter(([name, planted]) => planted.name !== name)
    const wanted = Object.keys(bug.statements ?? {})
    expect(changed.map(([name]) => name).sort()).toEqual(wanted.sort())
    // The database understands what the bug made of them.
    for (const [name, { text }] of changed) await db.query(`prepare planted_${name} as ${text}`)
  })

  test('frozen-owner can be planted into a process', () => {
    const late = Number.MAX_SAFE_INTEGER
    expect(new Hold(0).isOurs(late)).toBe(false)
    outliveClaims(Hold)
    expect(new Hold(0).isOurs(late)).toBe(true)
  })
})

function changesOf(bug: PlantedBug, name: string, db: PostgresDatabase) {
  const fill = (text: string) => text.replaceAll('__schema__', db.schema)
  return (bug.functions?.[name] ?? []).map(([found, put]) => [fill(found), fill(put)] as const)
}

/** What the database runs when each function is called; fails if there are two of a name. */
async function bodiesOf(db: PostgresDatabase, names: readonly string[]): Promise<string[]> {
  const { rows } = await db.query<{ name: string; body: string }>(
    `select p.proname as name, p.prosrc as body from pg_proc p
    where p.pronamespace = $1::regnamespace and p.proname = any($2)`,
    [db.schema, names],
  )
  expect(rows.map(({ name }) => name).sort()).toEqual([...names].sort())
  return names.map((name) => rows.find((row) => row.name === name)?.body as string)
}
