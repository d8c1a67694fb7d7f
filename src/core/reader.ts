import type { Connection, Database } from '../db/database.ts'

/** A connection that knows its schema, for statements whose text depends on what is asked. */
export interface Reader extends Connection {
  readonly schema: string
}

const settings = `set transaction isolation level repeatable read, read only;
  set local jit = off;
  set local max_parallel_workers_per_gather = 0;
  set local seq_page_cost = 2;
  set local random_page_cost = 2`

/**
 * Runs several statements on one snapshot. The planner does not know that limits end our reads early, so it would often compile a
 * plan (JIT) or start parallel workers, which takes longer than the read. The pages are mostly in memory, where their number
 * costs and not their order.
 */
export async function readAtOnce<T>(db: Database, work: (reader: Reader) => Promise<T>): Promise<T> {
  const read = async (tx: Connection) => {
    await tx.query(settings)
    return work({
      schema: db.schema,
      query: (text, values) => tx.query(text.replaceAll('__schema__', db.schema), values),
      run: (statement, values) => tx.run(statement, values),
    })
  }
  return db.transaction(read, { readOnly: true })
}

/** How many rows the planner expects of a query: a cheap guess, from the last ANALYZE. */
export async function planRows(reader: Reader, text: string, values: readonly unknown[]): Promise<number> {
  const { rows } = await reader.query<{ 'QUERY PLAN': [{ Plan: { 'Plan Rows': number } }] }>(
    `explain (format json) ${text}`,
    values,
  )
  return rows[0]?.['QUERY PLAN'][0].Plan['Plan Rows'] ?? 0
}
