import { type Database, defineStatement } from '../db/database.ts'
import type { PruneStep } from './prune-events.ts'

const recoveriesMax = 1_000

/** Removes records of what starts found unfinished long ago. */
export async function pruneRecoveries(db: Database, keepMs: number): Promise<PruneStep> {
  const [row] = await db.run<[removed: number]>(pruneStatement(db), [keepMs, recoveriesMax])
  const removed = row?.[0] ?? 0
  return { removed, more: removed === recoveriesMax }
}

/** Ids are of the time when they were made, so what is old is found by them. */
const pruneStatement = defineStatement(
  'prune_recoveries',
  `with removed as (
    delete from __schema__.queue_recoveries r
    where r.id in (
      select o.id from __schema__.queue_recoveries o
      where o.id < __schema__.uuid_floor(__schema__.clock() - $1 * interval '1 ms') and o.status <> 'running'
      order by o.id
      limit $2
      for update skip locked)
    returning 1
  )
  select count(*)::int from removed`,
)
