import { type Database, defineStatement } from '../db/database.ts'
import type { PruneStep } from './prune-events.ts'

const checkpointsMax = 1_000

/** Removes checkpoints that were recorded long ago. */
export async function pruneCheckpoints(db: Database, keepMs: number): Promise<PruneStep> {
  const [row] = await db.run<[removed: number]>(pruneStatement(db), [keepMs, checkpointsMax])
  const removed = row?.[0] ?? 0
  return { removed, more: removed === checkpointsMax }
}

const pruneStatement = defineStatement(
  'prune_checkpoints',
  `with removed as (
    delete from __schema__.queue_checkpoints c
    where c.id in (
      select o.id from __schema__.queue_checkpoints o
      where o.created_at < __schema__.clock() - $1 * interval '1 ms'
      order by o.created_at
      limit $2
      for update skip locked)
    returning 1
  )
  select count(*)::int from removed`,
)
