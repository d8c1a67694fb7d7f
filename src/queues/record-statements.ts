import { defineStatement } from '../db/database.ts'

/**
 * Records checkpoints of the queues $1, or, if $1 is null, of at most $3 queues that were not looked at for 50 seconds; $2 is
 * the reason. One process takes each queue: a second one waits for the row, and then finds that the queue is no longer due. The
 * document of a queue in which nothing has happened is not written again.
 */
export const checkpointQueues = defineStatement(
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
    returning c.id, c.queue_id, c.checkpoint_id::bigint, c.event_count, c.reason, c.created_at
  )
  select d.count, m.id, m.queue_id, m.checkpoint_id, m.event_count, m.reason, m.created_at
  from (select count(*)::int as count from due) as d
  left join made m on true`,
)

/*
 * Lists of the checkpoints of the queue $1 from $2 until $3, after the id $4. Checkpoints of an earlier subscription of the same
 * name are left out. An id begins with the time when it was made, give or take a millisecond, so ids bound the time. Both columns
 * are compared as a pair, and times as a sum, so that PostgreSQL reads the index of the queue, in order and no further than
 * the page.
 */

export const listCheckpoints = defineStatement(
  'list_checkpoints',
  `select c.id, c.queue_id, c.checkpoint_id::bigint, c.event_count, c.reason, c.created_at
  from __schema__.queue_checkpoints c
  where (c.queue_id, c.id) > ($1::text, greatest(__schema__.uuid_floor($2::timestamptz - interval '1 s'),
      '00000000-0000-0000-0000-000000000000'::uuid, $4::uuid))
    and (c.queue_id, c.id) < ($1::text, least(__schema__.uuid_floor($3::timestamptz + interval '1 s'),
      'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))
    and c.created_at + interval '0 s' >= greatest(
      $2::timestamptz, (select q.created_at from __schema__.event_queue_state q where q.id = $1))
    and c.created_at + interval '0 s' < coalesce($3::timestamptz, 'infinity')
  order by c.queue_id, c.id
  limit $5 offset $6`,
)

export const listCheckpointsDescending = defineStatement(
  'list_checkpoints_desc',
  `select c.id, c.queue_id, c.checkpoint_id::bigint, c.event_count, c.reason, c.created_at
  from __schema__.queue_checkpoints c
  where (c.queue_id, c.id) > ($1::text, greatest(__schema__.uuid_floor($2::timestamptz - interval '1 s'),
      '00000000-0000-0000-0000-000000000000'::uuid))
    and (c.queue_id, c.id) < ($1::text, least(__schema__.uuid_floor($3::timestamptz + interval '1 s'),
      'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid, $4::uuid))
    and c.created_at + interval '0 s' >= greatest(
      $2::timestamptz, (select q.created_at from __schema__.event_queue_state q where q.id = $1))
    and c.created_at + interval '0 s' < coalesce($3::timestamptz, 'infinity')
  order by c.queue_id desc, c.id desc
  limit $5 offset $6`,
)

/**
 * Records a recovery for each of the queues $1 that has unfinished deliveries. The process $2 is starting; a delivery that
 * another worker has leased is not counted if that worker was seen lately. Nothing has to be loaded, so a recovery is complete
 * as soon as it is recorded.
 */
export const recordRecoveries = defineStatement(
  'record_recoveries',
  `insert into __schema__.queue_recoveries as r (id, queue_id, worker, checkpoint_id, events_recovered, recovery_start_time,
    recovery_complete_time, status)
  select __schema__.uuid_v7(), s.name, $2, t.last_id::text, f.unfinished, __schema__.clock(), __schema__.clock(), 'completed'
  from __schema__.subscriptions s
  join __schema__.queue_totals t on t.subscription = s.no
  cross join lateral (
    select __schema__.queue_depth(s.no, $3) - (
      select coalesce(sum(cardinality(l.event_ids)), 0)
      from (
        select o.event_ids, o.worker, o.leased_until from __schema__.runs o
        where o.subscription = s.no and o.state = 'leased'
        limit $3
      ) as l
      join __schema__.workers w on w.no = l.worker
      where l.leased_until > __schema__.clock() and w.seen_at > __schema__.clock() - interval '15 s' and w.name <> $2
    ) as unfinished
  ) as f
  where s.no = any($1::int[]) and s.status <> 'deleted' and s.storage = 'database' and f.unfinished > 0
  returning r.queue_id as queue, r.checkpoint_id::bigint as "checkpointId", r.events_recovered as "eventsRecovered"`,
)

/* Lists of the recoveries of the queue $1 after the id $2. Those of an earlier subscription of the same name are left out. */

export const listRecoveries = defineStatement(
  'list_recoveries',
  `select r.id, r.queue_id as queue, r.worker, r.checkpoint_id::bigint as "checkpointId",
    r.events_recovered as "eventsRecovered", r.recovery_start_time as "startedAt",
    r.recovery_complete_time as "completedAt", r.status
  from __schema__.queue_recoveries r
  join __schema__.event_queue_state q on q.id = r.queue_id
  where r.queue_id = $1 and r.recovery_start_time >= q.created_at and ($2::uuid is null or r.id > $2::uuid)
  order by r.id
  limit $3 offset $4`,
)

export const listRecoveriesDescending = defineStatement(
  'list_recoveries_desc',
  `select r.id, r.queue_id as queue, r.worker, r.checkpoint_id::bigint as "checkpointId",
    r.events_recovered as "eventsRecovered", r.recovery_start_time as "startedAt",
    r.recovery_complete_time as "completedAt", r.status
  from __schema__.queue_recoveries r
  join __schema__.event_queue_state q on q.id = r.queue_id
  where r.queue_id = $1 and r.recovery_start_time >= q.created_at and ($2::uuid is null or r.id < $2::uuid)
  order by r.id desc
  limit $3 offset $4`,
)
