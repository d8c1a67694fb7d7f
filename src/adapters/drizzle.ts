import type { Queryable } from '../db/database.ts'
import { checkAdapted, isPool, isPostgresJsPool, notOutside } from '../domain/caller-transaction.ts'
import { withTextArrays } from './text-arrays.ts'

interface DrizzleTransaction {
  execute(query: never): PromiseLike<unknown>
}

/** `await db.transaction(async (tx) => hub.publish(event, { tx: fromDrizzle(tx) }))` */
export function fromDrizzle(tx: DrizzleTransaction): Queryable {
  checkAdapted('Drizzle', tx, 'execute')
  // A transaction has a client, or a transaction, of its own.
  const { client } = (tx as { session?: { client?: unknown } }).session ?? {}
  notOutside('Drizzle', isPool(client) || isPostgresJsPool(client))
  return {
    async query<Row>(text: string, values: readonly unknown[] = []) {
      return toResult<Row>(await tx.execute(wrapped(text, withTextArrays(values)) as never))
    },
  }
}

/**
 * Drizzle asks what it executes for its SQL, and that for its text and parameters. Answering directly keeps
 * `$1` as it is, wherever it stands; Drizzle's own `sql` would number the parameters anew.
 */
function wrapped(sql: string, params: unknown[]) {
  return { getSQL: () => ({ toQuery: () => ({ sql, params }) }) }
}

/** Over pg and PGlite the answer has rows, over postgres.js it is the rows. */
function toResult<Row>(answer: unknown): { rows: Row[]; rowCount: number | null } {
  if (Array.isArray(answer)) {
    return { rows: Array.from(answer), rowCount: (answer as { count?: number }).count ?? answer.length }
  }
  const { rows, rowCount = null } = answer as { rows: Row[]; rowCount?: number | null }
  return { rows, rowCount }
}
