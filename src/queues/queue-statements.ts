import { defineStatement } from '../db/database.ts'

/**
 * Queues with a number above $2 and below $3, by number; $4 is 1 for ascending order and -1 for descending. $1 is the name of
 * the one queue that is asked for, or null. $5 and $6 are limit and offset, $7 is how far the depth is counted.
 */
export const readQueues = defineStatement(
  'read_queues',
  `select s.no, s.id as "subscriptionId", s.name, s.via, s.storage, s.status, __schema__.queue_config(s) as config,
    case when s.storage = 'memory' then nullif(m.checkpoint, 0) else t.last_id end as "checkpointId",
    t.processed, t.errors, t.timed, t.execution_ms as "executionMs", __schema__.queue_depth(s.no, $7) as depth,
    coalesce(p.level, 'none') as backpressure, s.drained_at as "drainedAt", s.created_at as "createdAt",
    s.updated_at as "updatedAt"
  from (
    select a.no
    from __schema__.subscriptions a
    where a.status <> 'deleted' and a.no > $2::int and a.no < $3::int and ($1::text is null or a.name = $1)
    order by a.no * $4::int
    limit $5 offset $6
  ) as page
  join __schema__.subscriptions s on s.no = page.no
  join __schema__.queue_totals t on t.subscription = s.no
  left join __schema__.queue_pressure p on p.subscription = s.no
  left join __schema__.memory_queues m on m.subscription = s.no
  order by s.no * $4::int`,
)

export const countQueues = defineStatement(
  'count_queues',
  `select count(*)::int as count from __schema__.subscriptions s where s.status <> 'deleted'`,
)

export const holdQueueConfig = defineStatement(
  'hold_queue',
  `select s.max_depth as "maxQueueDepth", s.high_watermark as "highWatermark", s.on_full as "onFull",
    s.batch_size as "batchSize", s.processing_interval_ms as "processingInterval",
    s.persistence_threshold as "persistenceThreshold"
  from __schema__.subscriptions s
  where s.name = $1 and s.status <> 'deleted'
  for update`,
)

export const configureQueue = defineStatement(
  'configure_queue',
  `update __schema__.subscriptions s
  set max_depth = $2, high_watermark = $3, on_full = $4, batch_size = $5, processing_interval_ms = $6,
    persistence_threshold = $7, updated_at = __schema__.clock()
  where s.name = $1 and s.status <> 'deleted'`,
)

/**
 * Sets `drained_at` of queues that are drained: nothing is left of what was published before the drain began, and nothing
 * can still come, because every transaction that was publishing then has ended. Which transactions these were is known
 * only after the fence is committed. So the first look draws a transaction number, which is higher than the number of every
 * transaction with an event below the fence.
 */
export const finishDrains = defineStatement(
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
    -- A memory queue is as its process last wrote it, after that process has heard of the drain. The row stays until the
    -- whole queue is moved, if it moves to the database.
    and not exists (
      select 1 from __schema__.memory_queues m
      where m.subscription = s.no
        and (m.depth > 0 or m.persisted_at is null
          -- a drain that began in the future began before the clock was set back
          or m.persisted_at < case when s.updated_at > __schema__.clock() then __schema__.clock() - interval '4 s'
            else s.updated_at + interval '1 s' end))
  returning s.name`,
)

/**
 * Measures the depth of at most $1 queues with a limit, and returns those whose level changed. One process at a time. A queue
 * cannot have grown by more than the event ids drawn since the last measurement: where that stays below the watermark nothing
 * is counted, for ten seconds at most, since sending events again draws no ids. Depths are counted up to the limit only.
 */
export const measurePressure = defineStatement(
  'measure_pressure',
  `with turn as materialized (
    select pg_try_advisory_xact_lock(hashtextextended('__schema__', 7002)) as is_mine
  ),
  limited as materialized (
    select s.no, s.name, (c.config->>'maxQueueDepth')::bigint as depth_max, (c.config->>'highWatermark')::bigint as high,
      c.config->>'on_full' = 'refuse' as refuses, i.latest_id
    from __schema__.subscriptions s
    cross join lateral (select __schema__.queue_config(s) as config) as c
    cross join (select coalesce(pg_sequence_last_value('__schema__.event_ids'::regclass), 0) as latest_id) as i
    where num_nonnulls(s.max_depth, s.high_watermark) > 0 and s.storage = 'database' and s.status <> 'deleted'
      and (select t.is_mine from turn t)
  ),
  due as materialized (
    select l.*, coalesce(p.level, 'none') as before, coalesce(p.is_refusing, false) as refused_before
    from limited l
    left join __schema__.queue_pressure p on p.subscription = l.no
    where p.subscription is null or p.measured_at not between __schema__.clock() - interval '10 s' and __schema__.clock()
      or (p.measured_at < __schema__.clock() - interval '100 ms'
        and (p.level <> 'none' or p.depth + l.latest_id - p.latest_id >= coalesce(l.high, l.depth_max)))
    order by p.measured_at nulls first
    limit $1
  ),
  arrival as materialized (
    select i.subscription, sum(cardinality(i.event_ids)) as deliveries
    from __schema__.inbox i
    where exists (select 1 from due d)
    group by i.subscription
  ),
  counted as materialized (
    select d.*, __schema__.depth_inside(d.no, coalesce(d.depth_max, d.high)::int) + coalesce(a.deliveries, 0) as depth
    from due d
    left join arrival a on a.subscription = d.no
  ),
  judged as materialized (
    select c.*, (case when c.depth >= c.depth_max then 'full' when c.depth >= c.high then 'high' else 'none' end) as level
    from counted c
  ),
  measured as (
    insert into __schema__.queue_pressure as p (subscription, level, is_refusing, depth, latest_id, measured_at)
    select j.no, j.level, j.level = 'full' and j.refuses, j.depth, j.latest_id, __schema__.clock()
    from judged j
    order by j.no
    on conflict (subscription) do update
    set level = excluded.level, is_refusing = excluded.is_refusing, depth = excluded.depth, latest_id = excluded.latest_id,
      measured_at = excluded.measured_at
  )
  select j.name, j.before, j.level, j.depth, j.level = 'full' and j.refuses as "isRefusing"
  from judged j
  where j.level <> j.before or (j.level = 'full' and j.refuses) <> j.refused_before`,
)

/** Adds up to $1 tallies to the counters of their queues. The rate is a running mean over about half a minute. */
export const addUpTallies = defineStatement(
  'add_up_tallies',
  `with found as materialized (
    select q.id from __schema__.queue_tallies q order by q.id limit $1 for update skip locked
  ),
  taken as (
    delete from __schema__.queue_tallies q
    where q.id = any(array(select f.id from found f))
    returning q.id, q.subscription, q.processed, q.errors, q.timed, q.execution_ms, q.last_id
  ),
  sum as (
    select t.subscription, sum(t.processed) as processed, sum(t.errors) as errors, sum(t.timed) as timed,
      sum(t.execution_ms) as execution_ms,
      (array_agg(t.last_id order by t.id desc) filter (where t.last_id is not null))[1] as last_id,
      coalesce(max(t.id) filter (where t.last_id is not null), 0) as last_tally
    from taken t
    group by t.subscription
  ),
  added as (
    insert into __schema__.queue_counters as c (subscription, processed, errors, timed, execution_ms, last_id,
      last_tally, counted_at)
    select s.subscription, s.processed, s.errors, s.timed, s.execution_ms, s.last_id, s.last_tally, __schema__.clock()
    from sum s
    order by s.subscription
    on conflict (subscription) do update
    set processed = c.processed + excluded.processed, errors = c.errors + excluded.errors, timed = c.timed + excluded.timed,
      execution_ms = c.execution_ms + excluded.execution_ms,
      last_id = case when excluded.last_tally > c.last_tally then excluded.last_id else c.last_id end,
      last_tally = greatest(excluded.last_tally, c.last_tally),
      counted_at = excluded.counted_at,
      ended_per_second = (
        select c.ended_per_second * e.kept + (excluded.processed + excluded.errors) / e.seconds * (1 - e.kept)
        from (
          select d.seconds, exp(greatest(-d.seconds / 30, -100)) as kept
          from (select greatest(date_part('epoch', excluded.counted_at - c.counted_at), 0.001) as seconds) as d
        ) as e)
  )
  select count(*)::int as count from taken`,
)
