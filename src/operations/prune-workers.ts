import { type Database, defineStatement } from '../db/database.ts'
import type { PruneStep } from './prune-events.ts'

const workersMax = 1_000

/**
 * Forgets workers that were last seen before everything that may name them: `keepMs` is the longest that the hub keeps
 * anything for, and a type may keep its events for longer.
 */
export async function pruneWorkers(db: Database, keepMs: number): Promise<PruneStep> {
  const [row] = await db.run<[removed: number]>(pruneStatement(db), [keepMs, workersMax])
  const removed = row?.[0] ?? 0
  return { removed, more: removed === workersMax }
}

/** A run that was taken back still names its worker, who may settle it late; it does so only while it waits. */
const pruneStatement = defineStatement(
  'prune_workers',
  `with removed as (
    delete from __schema__.workers w
    where w.no in (
      select o.no from __schema__.workers o
      where o.seen_at < __schema__.clock() - interval '1 ms'
          * greatest($1, (select max(t.keep_ms) from __schema__.event_types t))
        and not exists (select 1 from __schema__.runs r where r.worker = o.no and r.state = 'leased')
      order by o.no
      limit $2
      for update skip locked)
    returning 1
  )
  select count(*)::int from removed`,
)
