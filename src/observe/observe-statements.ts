import { defineStatement } from '../db/database.ts'

/** Deliveries that wait behind the run of their lane, or in the inbox. Both tables are read as a whole. */
export const statsBehind = defineStatement(
  'stats_behind',
  `select b.subscription, sum(cardinality(b.event_ids)) as deliveries, min(b.event_ids[1]) as "oldestId"
  from (
    select q.subscription, q.event_ids from __schema__.lane_queue q
    union all
    select i.subscription, i.event_ids from __schema__.inbox i where i.event_ids is not null
  ) as b
  group by b.subscription`,
)

/**
 * The figures of each queue. $1: how many subscriptions have a row of their own; the others are summed up as $2. $3: how many
 * of the oldest ready runs are compared. $4 to $6: what waits behind, by subscription. $7 and $8: what must miss its expiry.
 */
export const statsQueues = defineStatement(
  'stats_queues',
  `with queue as materialized (
    select s.no, s.name, s.via, row_number() over (order by s.no) <= $1 as shown
    from __schema__.subscriptions s
    where s.status <> 'deleted'
  ),
  ready as (
    select r.subscription, count(*) as runs
    from __schema__.runs r
    where r.state = 'ready'
    group by r.subscription
  ),
  more as (
    select r.subscription, sum(cardinality(r.event_ids) - 1) as deliveries
    from __schema__.runs r
    where r.several and r.state = 'ready'
    group by r.subscription
  ),
  aside as (
    select r.subscription, sum(cardinality(r.event_ids)) as deliveries,
      -- In a lane only the head waits for its time; the others wait for the head.
      sum(case when r.state = 'deferred' and r.ordering_key is not null then 1 else cardinality(r.event_ids) end)
        filter (where r.state in ('deferred', 'delayed')) as delayed,
      count(*) filter (where r.state = 'deferred' and r.failures > 0) as retries
    from __schema__.runs r
    where r.state in ('deferred', 'delayed', 'held', 'gated', 'blocked')
    group by r.subscription
  ),
  -- Deliveries of a lane that a lease owns but was not granted still wait.
  leased as (
    select r.subscription, sum(cardinality(r.event_ids[1:r.granted])) as deliveries,
      sum(cardinality(r.event_ids[r.granted + 1:])) as owned
    from __schema__.runs r
    where r.state = 'leased'
    group by r.subscription
  ),
  behind as materialized (
    select b.subscription, b.deliveries, b.oldest_id
    from unnest($4::int[], $5::bigint[], $6::bigint[]) as b(subscription, deliveries, oldest_id)
  ),
  expiring as materialized (
    select x.subscription, x.deliveries from unnest($7::int[], $8::bigint[]) as x(subscription, deliveries)
  ),
  counted as (
    select q.no, q.name, q.via, q.shown, b.oldest_id as behind_id, coalesce(x.deliveries, 0) as expiring,
      coalesce(r.runs, 0) + coalesce(m.deliveries, 0) + coalesce(a.deliveries, 0) + coalesce(o.owned, 0)
        + coalesce(b.deliveries, 0) as waiting,
      coalesce(a.delayed, 0) as delayed, coalesce(a.retries, 0) as retries, coalesce(o.deliveries, 0) as leased
    from queue q
    left join ready r on r.subscription = q.no
    left join more m on m.subscription = q.no
    left join aside a on a.subscription = q.no
    left join leased o on o.subscription = q.no
    left join behind b on b.subscription = q.no
    left join expiring x on x.subscription = q.no
  )
  select case when c.shown then c.name else $2 end as name, case when c.shown then min(c.via) end as via,
    sum(c.waiting)::float8 as waiting, sum(c.delayed)::float8 as delayed, sum(c.retries)::float8 as retries,
    sum(c.leased)::float8 as leased, sum(c.expiring)::float8 as expiring, greatest(max(w.seconds), 0)::float8 as "oldestSeconds"
  from counted c
  left join lateral (
    select max(date_part('epoch', __schema__.clock() - greatest(e.created_at, e.run_at))) as seconds
    from (
      (select r.first_id as id
       from __schema__.runs r
       where r.subscription = c.no and r.state = 'ready'
       order by r.first_id
       limit $3)
      union all
      select c.behind_id
    ) as o
    join __schema__.events e on e.id = o.id
  ) as w on true
  group by c.shown, case when c.shown then c.no end, case when c.shown then c.name else $2 end
  order by c.shown desc, min(c.no)`,
)

/** Transactions are measured by the real clock, which tests do not move. */
export const statsRest = defineStatement(
  'stats_rest',
  `select
    (select count(*) from __schema__.dead_letters l where l.redriven_at is null) as "deadLetters",
    coalesce((
      select max(date_part('epoch', clock_timestamp() - a.xact_start))
      from pg_stat_activity a
      where a.datname = current_database() and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
    ), 0)::float8 as "oldestTransactionSeconds"`,
)

/** Attempts that began more than $1 ms ago and have not ended, the oldest first, at most $2. Only leased runs are read. */
export const overdueAttempts = defineStatement(
  'overdue_attempts',
  `select o.token || '-' || o.subscription || '-' || o.event_id as key, s.name, e.type, o.event_id as "eventId",
    w.name as worker, o.leased_at as "pickedAt"
  from (
    select r.token, r.subscription, r.worker, r.leased_at, u.event_id
    from __schema__.runs r
    cross join lateral unnest(r.begun) as u(event_id)
    where r.state = 'leased' and r.leased_at <= __schema__.clock() - $1::bigint * interval '1 ms'
      and u.event_id = any(r.event_ids)
    order by r.leased_at, u.event_id
    limit $2
  ) as o
  join __schema__.subscriptions s on s.no = o.subscription
  join __schema__.events e on e.id = o.event_id
  left join __schema__.workers w on w.no = o.worker
  order by o.leased_at, o.event_id`,
)

export const countOverdueAttempts = defineStatement(
  'count_overdue',
  `select count(*)::int as count
  from __schema__.runs r
  cross join lateral unnest(r.begun) as u(event_id)
  where r.state = 'leased' and r.leased_at <= __schema__.clock() - $1::bigint * interval '1 ms'
    and u.event_id = any(r.event_ids)`,
)

/**
 * Deliveries that must miss their expiry. Reads the first $2 rows of each table, and the first $1 deliveries of each queue:
 * beyond that bound the count stays the same while the time grows, so a later expiry is never the worst.
 */
export const expiringDeliveries = defineStatement(
  'count_expiring',
  `with waiting as (
    (select r.subscription, r.expires_at, cardinality(r.event_ids) as deliveries
     from __schema__.runs r
     where r.expires_at is not null and r.state <> 'leased'
     order by r.expires_at
     limit $2)
    union all
    (select q.subscription, q.expires_at, cardinality(q.event_ids)
     from __schema__.lane_queue q
     where q.expires_at is not null
     order by q.expires_at
     limit $2)
    union all
    (select i.subscription, u.expires_at, 1
     from __schema__.inbox i
     cross join lateral unnest(i.expires_ats) as u(expires_at)
     where i.expires_ats is not null and u.expires_at is not null
     limit $2)
  ),
  due as (
    select w.subscription, greatest(date_part('epoch', w.expires_at - __schema__.clock()), 0) as seconds,
      least(sum(w.deliveries) over (partition by w.subscription order by w.expires_at), $1) as deliveries
    from waiting w
  )
  select d.subscription,
    ceil(max(d.deliveries - d.seconds * coalesce(__schema__.rate_now(c.ended_per_second, c.counted_at), 0)))::int
      as deliveries
  from due d
  left join __schema__.queue_counters c on c.subscription = d.subscription
  group by d.subscription
  having max(d.deliveries - d.seconds * coalesce(__schema__.rate_now(c.ended_per_second, c.counted_at), 0)) > 0`,
)
