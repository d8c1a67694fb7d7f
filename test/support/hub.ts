import { afterEach } from 'vitest'
import type { PosthornOptions } from '../../src/config.ts'
import type { Catalogue } from '../../src/domain/catalogue.ts'
import { type TestPosthorn, testPosthorn } from '../../src/testing/index.ts'
import { type FileDatabase, useDatabase } from './database.ts'

export interface HubFactory {
  /** A hub in a schema of its own, stopped after the test. */
  open<const C extends Catalogue = Catalogue>(options?: PosthornOptions<C>): Promise<TestPosthorn<C>>
  /** The name of a schema that no test has used. */
  freshSchema(): string
  readonly connection: FileDatabase['connection']
}

/** One database per test file, one schema per hub. */
export function useHubs(name: string): HubFactory {
  const database = useDatabase(name)
  const opened: TestPosthorn[] = []
  afterEach(async () => {
    await Promise.all(opened.splice(0).map(({ hub }) => hub.stop({ graceMs: 100 })))
  })
  return {
    async open(options) {
      const test = await testPosthorn({
        database: database.connection,
        poolMax: 5,
        ...options,
        schema: options?.schema ?? database.freshSchema(),
      })
      opened.push(test as unknown as TestPosthorn)
      return test
    },
    freshSchema: database.freshSchema,
    get connection() {
      return database.connection
    },
  }
}
