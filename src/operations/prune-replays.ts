import { type Database, defineStatement } from '../db/database.ts'
import type { PruneStep } from './prune-events.ts'

const replaysMax = 1_000

/** Removes replays that ended long ago. */
export async function pruneReplays(db: Database, keepMs: number): Promise<PruneStep> {
  const [row] = await db.run<[removed: number]>(pruneStatement(db), [keepMs, replaysMax])
  const removed = row?.[0] ?? 0
  return { removed, more: removed === replaysMax }
}

const pruneStatement = defineStatement(
  'prune_replays',
  `with removed as (
    delete from __schema__.replays r
    where r.id in (
      select o.id from __schema__.replays o
      where o.state <> 'running' and o.finished_at < __schema__.clock() - $1 * interval '1 ms'
      order by o.id
      limit $2
      for update skip locked)
    returning 1
  )
  select count(*)::int from removed`,
)
