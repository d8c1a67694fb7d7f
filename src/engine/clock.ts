import type { Database } from '../db/database.ts'
import { readClockOffsetStatement, readClockStatement } from './publish-statements.ts'

/** The time of the database's clock, in ms. */
export async function readClock(db: Database): Promise<number> {
  const [row] = await db.run<[nowMs: number]>(readClockStatement(db), [])
  return Math.floor(row?.[0] as number)
}

/** How far the clock has been moved, in ms. */
export async function readClockOffset(db: Database): Promise<number> {
  const [row] = await db.run<[offsetMs: number]>(readClockOffsetStatement(db), [])
  return row?.[0] as number
}

/**
 * Moves the clock of a schema, for tests: every session sees it at once. It replaces the SQL function, so the possibility costs
 * nothing in production.
 */
export async function moveClock(db: Database, offsetMs: number): Promise<void> {
  if (!Number.isSafeInteger(offsetMs))
    throw new RangeError(`Expected offsetMs to be an integer, got ${offsetMs}.`)
  await db.query(
    `create or replace function ${db.schema}.clock() returns timestamptz language sql stable
    as 'select statement_timestamp() + interval ''${offsetMs} ms'''`,
  )
}
