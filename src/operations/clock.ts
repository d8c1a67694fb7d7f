import type { Database } from '../db/database.ts'

/**
 * Moves the one clock of a schema, for tests: every session sees it at once. Replacing the function is all
 * there is to it, so production pays nothing for the possibility.
 */
export async function moveClock(db: Database, offsetMs: number): Promise<void> {
  if (!Number.isSafeInteger(offsetMs))
    throw new RangeError(`Expected offsetMs to be an integer, got ${offsetMs}.`)
  await db.query(
    `create or replace function ${db.schema}.clock() returns timestamptz language sql stable
    as 'select statement_timestamp() + interval ''${offsetMs} ms'''`,
  )
}
