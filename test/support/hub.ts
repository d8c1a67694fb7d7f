import { setTimeout as delay, setImmediate } from 'node:timers/promises'
import pg from 'pg'
import type { PosthornOptions } from '../../src/config.ts'
import type { Catalogue } from '../../src/domain/catalogue.ts'
import { type TestPosthorn, testPosthorn } from '../../src/testing/index.ts'
import { type FileDatabase, useDatabase } from './database.ts'
import type { Place } from './places.ts'

export interface HubFactory {
  /** A hub in a schema of its own, stopped after the test, or after the last one if it was opened outside a test. */
  open<const C extends Catalogue = Catalogue>(options?: PosthornOptions<C>): Promise<TestPosthorn<C>>
  /** For a test that opens several hubs on one schema, or looks into the tables. */
  takePlace(): Promise<Place>
  readonly connection: FileDatabase['connection']
}

/** One database per test file. A hub has its schema for the test, or for the file if it is opened outside a test. */
export function useHubs(name: string): HubFactory {
  const database = useDatabase(name, { schemas: 2 })
  return {
    async open<const C extends Catalogue = Catalogue>(options: PosthornOptions<C> = {}) {
      const where = await whereOf(database, options)
      const test = await testPosthorn<C>({ ...options, ...where })
      database.atEnd(() => test.hub.stop({ graceMs: 100 }))
      return { ...test, drain: patientDrain(test.drain, where) }
    },
    takePlace: database.takePlace,
    get connection() {
      return database.connection
    },
  }
}

/**
 * Waits longer than usual, since no test may fail because the machine is busy. Then it waits until the hub has heard the
 * answer to its last statement: what is settled is gone from the tables a moment before anybody counts it.
 */
export function patientDrain(drain: TestPosthorn['drain'], { database }: Where): TestPosthorn['drain'] {
  return async (timeoutMs = 60_000) => {
    await drain(timeoutMs)
    if (!(database instanceof pg.Pool)) return
    for (let look = 0; look < 500 && database.idleCount < database.totalCount; look++) await delay(1)
    await setImmediate()
  }
}

type ConnectionOptions = Pick<
  PosthornOptions,
  'database' | 'schema' | 'poolMax' | 'prepared' | 'statementTimeoutMs'
>
export type Where = Pick<PosthornOptions, 'database' | 'schema' | 'poolMax'>

async function whereOf(database: FileDatabase, options: ConnectionOptions): Promise<Where> {
  const { schema, poolMax = 5 } = options
  if (schema === undefined) return connectTo(await database.takePlace(), database, options)
  return { database: options.database ?? database.connection, poolMax, schema }
}

/** By the connections of its place, unless the test says how to connect. */
export function connectTo(
  { schema, pool }: Place,
  { connection }: FileDatabase,
  { database, poolMax, prepared, statementTimeoutMs }: ConnectionOptions,
): Where {
  const isOwn = [database, poolMax, prepared, statementTimeoutMs].some((option) => option !== undefined)
  return isOwn
    ? { database: database ?? connection, poolMax: poolMax ?? 5, schema }
    : { database: pool, schema }
}
