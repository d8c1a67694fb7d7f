import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, inject, type RunnerTestSuite } from 'vitest'
import { openPostgres, type PostgresDatabase, type PostgresOptions } from '../../src/db/postgres.ts'
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
}

/** One database for a test file, with a migrated schema for each of its tests. */
export function useDatabase(name: string): FileDatabase {
  let database: TestDatabase
  let schemas = 0
  // biome-ignore lint/correctness/noEmptyPattern: vitest wants to see which fixtures a hook takes, and these are none
  beforeAll(async ({}, file) => {
    database = await createTestDatabase(name, { schemas: countTests(file.tasks) })
  })
  afterAll(() => database.drop())
  return {
    get connection() {
      return database.connection
    },
    open: (options) => database.open(options),
    freshSchema: () => schemaName(++schemas),
  }
}

type Tasks = RunnerTestSuite['tasks']

/** Only those that will run: not those that a filter leaves out. */
function countTests(tasks: Tasks): number {
  return tasks
    .filter(({ mode }) => mode !== 'skip' && mode !== 'todo')
    .reduce((count, task) => count + (task.type === 'suite' ? countTests(task.tasks) : 1), 0)
}
