import { type Database, defineStatement } from '../db/database.ts'
import type { MemoryClaim } from './claim-memory.ts'

/** Notes that a start has found unfinished events; undefined: there were none. */
export async function beginRecovery(
  db: Database,
  { subscription, worker }: MemoryClaim,
): Promise<string | undefined> {
  const [row] = await db.once<[id: string]>(beginStatement(db), [subscription, worker], {})
  return row?.[0]
}

export async function endRecovery(db: Database, id: string, eventsRecovered: number): Promise<void> {
  await db.once(endStatement(db), [id, eventsRecovered], {})
}

/** A recovery of the queue that has not ended was cut short. */
const beginStatement = defineStatement(
  'begin_memory_recovery',
  `with queue as materialized (
    select s.name, q.subscription, q.checkpoint
    from __schema__.memory_queues q
    join __schema__.subscriptions s on s.no = q.subscription
    where q.subscription = $1
  ),
  cut_short as (
    update __schema__.queue_recoveries r
    set status = 'failed', recovery_complete_time = __schema__.clock()
    from queue q
    where r.queue_id = q.name and r.status = 'running'
  )
  insert into __schema__.queue_recoveries (id, queue_id, worker, checkpoint_id, events_recovered, recovery_start_time, status)
  select __schema__.uuid_v7(), q.name, $2, nullif(q.checkpoint, 0)::text, 0, __schema__.clock(), 'running'
  from queue q
  where exists (
    select 1 from __schema__.memory_events e
    where e.subscription = $1 and e.event_id > q.checkpoint
      and not exists (
        select 1 from __schema__.memory_settled t where t.subscription = $1 and t.event_id = e.event_id))
  returning id`,
)

const endStatement = defineStatement(
  'end_memory_recovery',
  `update __schema__.queue_recoveries r
  set status = 'completed', events_recovered = $2, recovery_complete_time = __schema__.clock()
  where r.id = $1`,
)
