import { type Database, defineStatement } from '../db/database.ts'

/** Says of queues that drain that they are drained, where that is so. Returns their names. */
export async function finishDrains(db: Database): Promise<string[]> {
  const rows = await db.once<[name: string]>(finishStatement(db), [], { indexPlans: true })
  return rows.map(([name]) => name)
}

/**
 * A queue is drained when nothing is left of what was published before it began to drain, and nothing can still come:
 * whoever was publishing then has ended. Who that is, is known once the fence is committed: so the first look only
 * draws a transaction number, which is higher than that of everybody who has an event below the fence.
 */
const finishStatement = defineStatement(
  'finish_drains',
  `with begun as (
    update __schema__.subscriptions s
    set drain_xid = pg_current_xact_id()
    where s.status = 'draining' and s.drained_at is null and s.drain_xid is null
  )
  update __schema__.subscriptions s
  set drained_at = __schema__.clock()
  where s.status = 'draining' and s.drained_at is null
    and pg_snapshot_xmin(pg_current_snapshot()) > s.drain_xid
    and not exists (
      select 1 from __schema__.runs r where r.subscription = s.no and r.state = 'ready' and r.first_id <= s.drain_fence)
    and not exists (select 1 from __schema__.runs r where r.subscription = s.no and r.state = 'leased')
    and not exists (
      select 1 from __schema__.runs r
      where r.subscription = s.no and r.state in ('deferred', 'delayed', 'held', 'gated', 'blocked') and r.first_id <= s.drain_fence)
    and not exists (select 1 from __schema__.lane_queue q where q.subscription = s.no)
    and not exists (
      select 1 from __schema__.inbox i
      where i.subscription = s.no
        and (i.event_ids is null or exists (select 1 from unnest(i.event_ids) as u(id) where u.id <= s.drain_fence)))
    -- One in memory is what its process last wrote of it, once that has heard of the drain. Its row is there until all of
    -- it is moved, if it is to be kept in the database.
    and not exists (
      select 1 from __schema__.memory_queues m
      where m.subscription = s.no
        and (m.depth > 0 or m.persisted_at is null
          -- a drain that began in the future did so before the clock was set back
          or m.persisted_at < case when s.updated_at > __schema__.clock() then __schema__.clock() - interval '4 s'
            else s.updated_at + interval '1 s' end))
  returning s.name`,
)
