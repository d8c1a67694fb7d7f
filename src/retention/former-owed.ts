import { type Database, defineStatement } from '../db/database.ts'

/** Whom an event was delivered to that is gone: its audit is kept for longer. */
export async function formerOwed(db: Database, eventId: number): Promise<number[]> {
  const rows = await db.run<[subscription: number]>(formerStatement(db), [eventId])
  return rows.map(([subscription]) => subscription)
}

const formerStatement = defineStatement(
  'former_owed',
  'select distinct a.subscription from __schema__.audit a where a.event_id = $1 order by a.subscription',
)
