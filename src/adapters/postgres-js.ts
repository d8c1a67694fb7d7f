import type { Queryable } from '../db/database.ts'
import { checkAdapted, isPostgresJsPool, notOutside } from '../domain/caller-transaction.ts'
import { withTextArrays } from './text-arrays.ts'

interface PostgresJsTransaction {
  unsafe(text: string, values: never): PromiseLike<ArrayLike<unknown> & { readonly count: number }>
}

/** `await sql.begin(async (sql) => hub.publish(event, { tx: fromPostgresJs(sql) }))` */
export function fromPostgresJs(sql: PostgresJsTransaction): Queryable {
  checkAdapted('postgres.js', sql, 'unsafe')
  notOutside('postgres.js', isPostgresJsPool(sql))
  return {
    async query<Row>(text: string, values: readonly unknown[] = []) {
      const result = await sql.unsafe(text, withTextArrays(values) as never)
      return { rows: Array.from(result) as Row[], rowCount: result.count }
    },
  }
}
