import { afterAll, afterEach, beforeAll } from 'vitest'
import type { PosthornOptions } from '../../src/config.ts'
import type { Catalogue } from '../../src/domain/catalogue.ts'
import { type TestPosthorn, testPosthorn } from '../../src/testing/index.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'

export interface HubFactory {
  /** A hub in a schema of its own, stopped after the test. */
  open<const C extends Catalogue = Catalogue>(options?: PosthornOptions<C>): Promise<TestPosthorn<C>>
  readonly connection: TestDatabase['connection']
}

/** One database per test file, one schema per hub. */
export function useHubs(name: string): HubFactory {
  let database: TestDatabase
  let schemas = 0
  const opened: TestPosthorn[] = []
  beforeAll(async () => {
    database = await createTestDatabase(name)
  })
  afterEach(async () => {
    await Promise.all(opened.splice(0).map(({ hub }) => hub.stop({ graceMs: 100 })))
  })
  afterAll(() => database.drop())
  return {
    async open(options) {
      const test = await testPosthorn({
        database: database.connection,
        schema: `t${++schemas}`,
        poolMax: 5,
        ...options,
      })
      opened.push(test as unknown as TestPosthorn)
      return test
    },
    get connection() {
      return database.connection
    },
  }
}
