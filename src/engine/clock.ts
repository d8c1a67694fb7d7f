import { type Database, defineStatement } from '../db/database.ts'

/** What time it is, in ms. */
export async function readClock(db: Database): Promise<number> {
  const [row] = await db.run<[nowMs: number]>(readStatement(db), [])
  return Math.floor(row?.[0] as number)
}

const readStatement = defineStatement('read_clock', `select date_part('epoch', __schema__.clock()) * 1000`)

/** How far the clock has been moved, in ms. */
export async function readClockOffset(db: Database): Promise<number> {
  const [row] = await db.run<[offsetMs: number]>(offsetStatement(db), [])
  return row?.[0] as number
}

const offsetStatement = defineStatement(
  'read_clock_offset',
  `select round(date_part('epoch', __schema__.clock() - statement_timestamp()) * 1000)::float8`,
)

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
