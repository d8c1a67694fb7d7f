import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, inject, type RunnerTestSuite } from 'vitest'
import { openPostgres, type PostgresDatabase, type PostgresOptions } from '../../src/db/postgres.ts'
import { type Place, Places } from './places.ts'
import type { ServerAddress } from './server.ts'
import { createEmpty, createWithSchemas, dropDatabase, schemaName } from './template.ts'

export interface TestDatabase {
  readonly connection: ServerAddress
  /** Its name on the server. */
  readonly database: string
  open(options?: Omit<PostgresOptions, 'connection' | 'pool'>): Promise<PostgresDatabase>
  /** Closes whatever open() gave out, then removes the database. */
  drop(): Promise<void>
}

/** A database of its own, so that test files can run side by side. It is empty, or has migrated schemas. */
export async function createTestDatabase(
  name = 'test',
  { schemas = 0 }: { schemas?: number } = {},
): Promise<TestDatabase> {
  const server = inject('postgres')
  const database = `posthorn_${name}_${randomBytes(6).toString('hex')}`
  if (schemas === 0) await createEmpty(server, database)
  else await createWithSchemas(server, { database, run: inject('run'), schemas })
  const connection = { ...server, database }
  const opened: PostgresDatabase[] = []
  return {
    connection,
    database,
    async open(options = {}) {
      const postgres = await openPostgres({ ...options, connection })
      opened.push(postgres)
      return postgres
    },
    async drop() {
      await Promise.all(opened.map((postgres) => postgres.close()))
      await dropDatabase(server, database)
    },
  }
}

export interface FileDatabase extends Pick<TestDatabase, 'connection' | 'open'> {
  /** The name of a schema that no test has used. Most are migrated already; whoever opens it migrates the others. */
  freshSchema(): string
  /** An empty schema and connections that earlier tests may have used. Asked for outside a test, it is for the file. */
  takePlace(): Promise<Place>
  /** Done after the test; asked for outside a test, after the last one. */
  atEnd(close: () => Promise<unknown>): void
}

/** One database for a test file, with as many migrated schemas as its tests need: one for each, or a few that are emptied. */
export function useDatabase(
  name: string,
  { schemas: wanted }: { schemas: 'per test' | number } = { schemas: 'per test' },
): FileDatabase {
  let database: TestDatabase
  let places: Places
  let schemas = 0
  let isInTest = false
  const afterTest: (() => Promise<unknown>)[] = []
  const afterFile: (() => Promise<unknown>)[] = []
  const freshSchema = () => schemaName(++schemas)
  // biome-ignore lint/correctness/noEmptyPattern: vitest wants to see which fixtures a hook takes, and these are none
  beforeAll(async ({}, file) => {
    const tests = countTests(file.tasks)
    database = await createTestDatabase(name, {
      schemas: wanted === 'per test' ? tests : Math.min(wanted, tests),
    })
    places = new Places(database.connection, freshSchema)
  })
  beforeEach(() => {
    places.nextTest()
    isInTest = true
  })
  afterEach(async () => {
    isInTest = false
    await Promise.all(afterTest.splice(0).map((close) => close()))
  })
  afterAll(async () => {
    await Promise.all(afterFile.splice(0).map((close) => close()))
    await places.close()
    await database.drop()
  })
  return {
    get connection() {
      return database.connection
    },
    open: (options) => database.open(options),
    freshSchema,
    takePlace: () => places.take(isInTest ? 'test' : 'file'),
    atEnd: (close) => void (isInTest ? afterTest : afterFile).push(close),
  }
}

type Tasks = RunnerTestSuite['tasks']

/** Only those that will run: not those that a filter leaves out. */
function countTests(tasks: Tasks): number {
  return tasks
    .filter(({ mode }) => mode !== 'skip' && mode !== 'todo')
    .reduce((count, task) => count + (task.type === 'suite' ? countTests(task.tasks) : 1), 0)
}
