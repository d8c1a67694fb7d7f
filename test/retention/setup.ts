import type { PosthornOptions } from '../../src/config.ts'
import type { PostgresDatabase } from '../../src/db/postgres.ts'
import type { Posthorn } from '../../src/posthorn.ts'
import type { TestPosthorn } from '../../src/testing/index.ts'
import { type HubFactory, useHubs } from '../support/hub.ts'

export const dayMs = 24 * 60 * 60 * 1000

export interface Kept extends TestPosthorn {
  readonly db: PostgresDatabase
  /** A second hub on the same tables. */
  openAlso(): Promise<Posthorn>
  /** Rows of a table. */
  count(table: string): Promise<number>
  /** Ids of the events that are stored. */
  eventIds(): Promise<number[]>
}

/** Hubs whose tables a test can look into. */
export function useKept(name: string): {
  open(options?: PosthornOptions): Promise<Kept>
  readonly hubs: HubFactory
} {
  const hubs = useHubs(name)
  return {
    hubs,
    async open(options = {}) {
      const { schema, pool, db } = await hubs.takePlace()
      const test = await hubs.open({ schema, database: pool, ...options })
      return {
        ...test,
        db,
        openAlso: async () => (await hubs.open({ schema, ...options })).hub,
        async count(table) {
          const { rows } = await db.query<{ count: number }>(
            `select count(*)::int as count from ${db.schema}.${table}`,
          )
          return rows[0]?.count ?? 0
        },
        async eventIds() {
          const { rows } = await db.query<{ id: number }>(`select id from ${db.schema}.events order by id`)
          return rows.map(({ id }) => id)
        },
      }
    },
  }
}
