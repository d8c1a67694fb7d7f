import { checkPaging, checkTime, type Paging, pagingOptions, uuidForm } from '../core/paging.ts'
import { readAtOnce } from '../core/reader.ts'
import { type Database, defineStatement } from '../db/database.ts'
import { checkOptions } from '../domain/known-names.ts'

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

export interface Checkpointed {
  readonly checkpoints: readonly Checkpoint[]
  /** It looked at as many as it does at once: more may be due. */
  readonly more: boolean
}

/** Records the state of queues: their documents, and how far they have come. */
export async function checkpoint(db: Database, { queues, reason }: CheckpointRequest): Promise<Checkpointed> {
  const rows = await db.once<[due: number, ...(CheckpointRow | [null])]>(
    checkpointStatement(db),
    [queues, reason, queuesMax],
    { indexPlans: true },
  )
  const made = rows.flatMap(([, ...row]) =>
    row[0] === null ? [] : [checkpointFromRow(row as CheckpointRow)],
  )
  return { checkpoints: made, more: rows[0]?.[0] === queuesMax }
}

const queuesMax = 50

/**
 * Of those that are due one process takes each: whoever comes second finds it taken, and then no longer due. The document of
 * a queue in which nothing has happened is not written again.
 */
const checkpointStatement = defineStatement(
  'checkpoint_queues',
  `with due as materialized (
    select q.id, s.no, q.queue_metrics, q.head_mark
    from __schema__.event_queue_state q
    join __schema__.subscriptions s on s.name = q.id and s.status <> 'deleted' and s.storage = 'database'
    where case when $1::int[] is null then q.checked_at not between __schema__.clock() - interval '50 s' and __schema__.clock() else s.no = any($1::int[]) end
    order by q.checked_at
    limit $3
    for update of q
  ),
  state as materialized (
    select d.id, d.no, t.last_id::text as checkpoint_id, t.processed, m.metrics, h.mark, m.metrics <> d.queue_metrics as has_worked,
      m.metrics <> d.queue_metrics or h.mark is distinct from d.head_mark as is_other
    from due d
    join __schema__.queue_totals t on t.subscription = d.no
    cross join lateral (
      select jsonb_build_object('totalProcessed', t.processed, 'totalErrors', t.errors,
        'avgProcessingTimeMs', case when t.timed = 0 then 0 else round(t.execution_ms::numeric / t.timed) end) as metrics
    ) as m
    cross join lateral (select __schema__.queue_head_mark(d.no) as mark) as h
  ),
  looked as (
    update __schema__.event_queue_state q
    set checked_at = __schema__.clock()
    from state s
    where q.id = s.id and not s.is_other
  ),
  written as (
    update __schema__.event_queue_state q
    set events = __schema__.queue_events(s.no), checkpoint_id = s.checkpoint_id, queue_metrics = s.metrics, head_mark = s.mark,
      checked_at = __schema__.clock(), updated_at = __schema__.clock()
    from state s
    where q.id = s.id and s.is_other
  ),
  made as (
    insert into __schema__.queue_checkpoints as c (id, queue_id, checkpoint_id, event_count, reason, created_at)
    select __schema__.uuid_v7(), s.id, s.checkpoint_id, s.processed, $2, __schema__.clock()
    from state s
    where $2 = 'requested' or s.has_worked
    returning c.id, c.queue_id, c.checkpoint_id, c.event_count, c.reason, c.created_at
  )
  select d.count, m.id, m.queue_id, m.checkpoint_id, m.event_count, m.reason, m.created_at
  from (select count(*)::int as count from due) as d
  left join made m on true`,
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
  checkOptions(filter, { ...pagingOptions, since: true, until: true }, 'a list of checkpoints')
  const { since, until } = filter
  checkTime('since', since)
  checkTime('until', until)
  const { limit, offset, after, order, cursorAt } = checkPaging('checkpoints', { ...filter, queue }, uuidForm)
  return readAtOnce(db, async (reader) => {
    const values = [queue, since ?? null, until ?? null, after, limit + 1, offset]
    const rows = await reader.run<CheckpointRow>(listStatements[order](db), values)
    const checkpoints = rows.slice(0, limit).map(checkpointFromRow)
    const last = checkpoints.at(-1)
    return {
      checkpoints,
      nextCursor: rows.length > limit && last !== undefined ? cursorAt(last.id) : null,
    }
  })
}

/**
 * Of this subscription, and not of one before it with the same name. Ids are of the time when they were made, give or take a
 * millisecond, so a time is found by them. Both columns are compared as one, and times as a sum, so that the index of the
 * queue is read, in order and no further than the page.
 */
const list = (name: string, { first, last, order }: { first: string; last: string; order: 'asc' | 'desc' }) =>
  defineStatement(
    name,
    `select c.id, c.queue_id, c.checkpoint_id, c.event_count, c.reason, c.created_at
  from __schema__.queue_checkpoints c
  where (c.queue_id, c.id) > ($1::text, greatest(__schema__.uuid_floor($2::timestamptz - interval '1 s'), ${first}))
    and (c.queue_id, c.id) < ($1::text, least(__schema__.uuid_floor($3::timestamptz + interval '1 s'), ${last}))
    and c.created_at + interval '0 s' >= greatest(
      $2::timestamptz, (select q.created_at from __schema__.event_queue_state q where q.id = $1))
    and c.created_at + interval '0 s' < coalesce($3::timestamptz, 'infinity')
  order by c.queue_id ${order}, c.id ${order}
  limit $5 offset $6`,
  )
const firstId = `'00000000-0000-0000-0000-000000000000'::uuid`
const lastId = `'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid`
const after = '$4::uuid'
const listStatements = {
  asc: list('list_checkpoints', { first: `${firstId}, ${after}`, last: lastId, order: 'asc' }),
  desc: list('list_checkpoints_desc', { first: firstId, last: `${lastId}, ${after}`, order: 'desc' }),
}

export type CheckpointRow = [
  id: string,
  queue: string,
  checkpointId: string | null,
  eventCount: number,
  reason: CheckpointReason,
  createdAt: Date,
]

export function checkpointFromRow([
  id,
  queue,
  checkpointId,
  eventCount,
  reason,
  createdAt,
]: CheckpointRow): Checkpoint {
  return {
    ...{ id, queue, eventCount, reason, createdAt },
    checkpointId: checkpointId === null ? null : Number(checkpointId),
  }
}
