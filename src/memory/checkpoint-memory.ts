import { type Database, defineStatement } from '../db/database.ts'
import {
  type Checkpoint,
  type CheckpointReason,
  type CheckpointRow,
  checkpointFromRow,
} from '../queues/checkpoints.ts'
import type { MemoryToken } from './claim-memory.ts'

export interface CheckpointRequest extends MemoryToken {
  readonly reason: CheckpointReason
}

/** Records how far a queue has come, as it was last persisted; undefined: another process has it. */
export async function checkpointMemory(
  db: Database,
  { subscription, token, reason }: CheckpointRequest,
): Promise<Checkpoint | undefined> {
  const values = [subscription, token, reason]
  const [row] = await db.once<CheckpointRow>(checkpointStatement(db), values, {})
  return row && checkpointFromRow(row)
}

const checkpointStatement = defineStatement(
  'checkpoint_memory',
  `with queue as materialized (
    select s.name, q.subscription, nullif(q.checkpoint, 0) as checkpoint, t.processed, t.errors, t.timed, t.execution_ms
    from __schema__.memory_queues q
    join __schema__.subscriptions s on s.no = q.subscription
    join __schema__.queue_totals t on t.subscription = q.subscription
    where q.subscription = $1 and q.token = $2
  ),
  kept as (
    update __schema__.event_queue_state d
    set checkpoint_id = q.checkpoint::text, updated_at = __schema__.clock(),
      queue_metrics = jsonb_build_object('totalProcessed', q.processed, 'totalErrors', q.errors,
        'avgProcessingTimeMs', coalesce(round(q.execution_ms::numeric / nullif(q.timed, 0), 2), 0)),
      events = coalesce((
        select jsonb_agg(__schema__.memory_document(m) order by m.event_id)
        from (
          select e.* from __schema__.memory_events e
          where e.subscription = $1 and e.event_id > coalesce(q.checkpoint, 0)
          order by e.event_id
          limit 100
        ) as m), '[]')
    from queue q
    where d.id = q.name
  )
  insert into __schema__.queue_checkpoints as c (id, queue_id, checkpoint_id, event_count, reason, created_at)
  select __schema__.uuid_v7(), q.name, q.checkpoint::text, q.processed, $3, __schema__.clock()
  from queue q
  returning c.id, c.queue_id, c.checkpoint_id::bigint, c.event_count, c.reason, c.created_at`,
)
