import { numberArray } from '../db/array.ts'
import { type Database, defineStatement } from '../db/database.ts'

/** Whether one of these subscriptions gives out nothing now. */
export async function isAnyHeld(db: Database, subscriptions: readonly number[]): Promise<boolean> {
  const rows = await db.run<[held: boolean]>(heldStatement(db), [numberArray(subscriptions)])
  return rows[0]?.[0] ?? false
}

const heldStatement = defineStatement(
  'is_any_held',
  `select exists (
    select 1 from __schema__.subscriptions s
    where s.no = any($1::int[]) and s.status not in ('active', 'draining'))`,
)
