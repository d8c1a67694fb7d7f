import { type Database, defineStatement } from '../db/database.ts'
import type { PruneStep } from './prune-events.ts'

const actionsMax = 1_000

/** Removes what is older from the admin log, oldest first. The table itself refuses to lose what is younger than 90 days. */
export async function pruneAdminLog(db: Database, keepMs: number): Promise<PruneStep> {
  const [row] = await db.run<[removed: number]>(pruneStatement(db), [keepMs, actionsMax])
  const removed = row?.[0] ?? 0
  return { removed, more: removed === actionsMax }
}

/** Only the oldest are looked at: without an index on the time, to look for old ones would be to read them all. */
const pruneStatement = defineStatement(
  'prune_admin_log',
  `with oldest as materialized (
    select l.id, l.at from __schema__.admin_log l order by l.id limit $2
  ),
  removed as (
    delete from __schema__.admin_log l
    where l.id = any(array(
      select o.id from oldest o where o.at < __schema__.clock() - $1 * interval '1 ms'))
    returning 1
  )
  select count(*)::int from removed`,
)
