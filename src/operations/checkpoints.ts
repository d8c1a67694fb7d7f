import { type Database, defineStatement } from '../db/database.ts'
import { checkPaging, checkTime, encodeCursor, type Paging } from './paging.ts'
import { readAtOnce } from './reader.ts'

export type CheckpointReason = 'requested' | 'interval' | 'stop' | 'threshold'

/** How far a queue had come at a time. */
export interface Checkpoint {
  readonly id: string
  readonly queue: string
  /** The event that was completed last. */
  readonly checkpointId: number | null
  /** Processed by then. */
  readonly eventCount: number
  readonly reason: CheckpointReason
  readonly createdAt: Date
}

export interface CheckpointRequest {
  /** By number; null: every queue that has done something since its last checkpoint a while ago. */
  readonly queues: readonly number[] | null
  readonly reason: CheckpointReason
}

/** Records the state of queues: their documents, and how far they have come. */
export async function checkpoint(db: Database, { queues, reason }: CheckpointRequest): Promise<Checkpoint[]> {
  const rows = await db.once<CheckpointRow>(checkpointStatement(db), [queues, reason, queuesMax], {
    indexPlans: true,
  })
  return rows.map(fromRow)
}

const queuesMax = 50

/** Of those that are due one process takes each: whoever comes second finds it taken, and then no longer due. */
const checkpointStatement = defineStatement(
  'checkpoint_queues',
  `with due as materialized (
    select q.id, q.queue_metrics
    from __schema__.event_queue_state q
    join __schema__.subscriptions s on s.name = q.id and s.status <> 'deleted' and s.storage = 'database'
    where case when $1::int[] is null then q.checked_at < __schema__.clock() - interval '50 s' else s.no = any($1::int[]) end
    order by q.checked_at
    limit $3
    for update of q
  ),
  state as materialized (
    select d.id, t.last_id::text as checkpoint_id, t.processed,
      jsonb_build_object('totalProcessed', t.processed, 'totalErrors', t.errors,
        'avgProcessingTimeMs', case when t.timed = 0 then 0 else round(t.execution_ms::numeric / t.timed) end) as metrics,
      d.queue_metrics as metrics_before, __schema__.queue_events(s.no) as events
    from due d
    join __schema__.subscriptions s on s.name = d.id and s.status <> 'deleted'
    join __schema__.queue_totals t on t.subscription = s.no
  ),
  written as (
    update __schema__.event_queue_state q
    set events = s.events, checkpoint_id = s.checkpoint_id, queue_metrics = s.metrics, checked_at = __schema__.clock(),
      updated_at = case when (q.events, q.queue_metrics) is distinct from (s.events, s.metrics) then __schema__.clock()
        else q.updated_at end
    from state s
    where q.id = s.id
  )
  insert into __schema__.queue_checkpoints as c (id, queue_id, checkpoint_id, event_count, reason, created_at)
  select __schema__.uuid_v7(), s.id, s.checkpoint_id, s.processed, $2, __schema__.clock()
  from state s
  where $2 = 'requested' or s.metrics <> s.metrics_before
  returning c.id, c.queue_id, c.checkpoint_id, c.event_count, c.reason, c.created_at`,
)

export interface CheckpointFilter extends Paging {
  readonly since?: Date
  readonly until?: Date
}

export interface CheckpointPage {
  readonly checkpoints: readonly Checkpoint[]
  readonly nextCursor: string | null
}

/** The oldest first, unless asked otherwise. */
export async function listCheckpoints(
  db: Database,
  queue: string,
  filter: CheckpointFilter = {},
): Promise<CheckpointPage> {
  const { since, until } = filter
  checkTime('since', since)
  checkTime('until', until)
  const { limit, offset, after, order } = checkPaging(filter, idForm)
  return readAtOnce(db, async (reader) => {
    const values = [queue, since ?? null, until ?? null, after, limit + 1, offset]
    const rows = await reader.run<CheckpointRow>(listStatements[order](db), values)
    const checkpoints = rows.slice(0, limit).map(fromRow)
    const last = checkpoints.at(-1)
    return {
      checkpoints,
      nextCursor: rows.length > limit && last !== undefined ? encodeCursor(order, last.id) : null,
    }
  })
}

const idForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const list = (name: string, comparison: string, order: string) =>
  defineStatement(
    name,
    `select c.id, c.queue_id, c.checkpoint_id, c.event_count, c.reason, c.created_at
  from __schema__.queue_checkpoints c
  where c.queue_id = $1 and c.created_at >= coalesce($2::timestamptz, '-infinity') and c.created_at < coalesce($3::timestamptz, 'infinity')
    and ($4::uuid is null or c.id ${comparison} $4::uuid)
  order by c.id ${order}
  limit $5 offset $6`,
  )
const listStatements = {
  asc: list('list_checkpoints', '>', 'asc'),
  desc: list('list_checkpoints_desc', '<', 'desc'),
}

type CheckpointRow = [
  id: string,
  queue: string,
  checkpointId: string | null,
  eventCount: number,
  reason: CheckpointReason,
  createdAt: Date,
]

function fromRow([id, queue, checkpointId, eventCount, reason, createdAt]: CheckpointRow): Checkpoint {
  return {
    ...{ id, queue, eventCount, reason, createdAt },
    checkpointId: checkpointId === null ? null : Number(checkpointId),
  }
}
