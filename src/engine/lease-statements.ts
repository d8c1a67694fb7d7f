import { defineStatement } from '../db/database.ts'

/**
 * Leases the oldest ready runs of each subscription that is asked for:
 *
 *   wanted ─▶ urgent (expires within a minute, up to half of the lease) ─┐
 *        └──▶ oldest ────────────────────────────────────────────────────┴▶ found ─▶ counted ─▶ taken
 *   taken ─┬▶ runs: ready ──▶ leased                                  what fits; of a lane as much as `lane_max`
 *          └▶ runs: a new ready run with the rest of a run without a lane
 *
 * $1 to $9 are arrays with one element per subscription; $10 is the token of the lease, $11 the worker, $12 says that
 * attempts begin with the lease, $13 bounds the bytes of the payloads (null: no bound).
 *
 * The two statements differ in how they find the oldest runs. They stay apart because every node of a plan is prepared
 * at each execution: one statement for both took 10 % longer for a single delivery.
 */
export const leaseStatement = defineStatement(
  'lease',
  `with wanted as materialized (
    select w.subscription, w.events_max, w.runs_max, w.suspects, w.lease_ms, w.lane_max,
      -- a queue that drains gives out nothing that was published later
      coalesce(s.drain_fence, 9223372036854775807) as last_id,
      -- half of the lease is for runs that expire soon; of one delivery, every second time: tokens are random or count up
      greatest(w.events_max / 2, $10::bigint % 2) as urgent_events_max,
      greatest(w.runs_max / 2, $10 % 2) as urgent_runs_max
    from unnest($1::int[], $2::int[], $3::int[], $4::boolean[], $5::int[], $6::int[], $7::boolean[], $8::boolean[],
        $9::bigint[])
      as w(subscription, events_max, runs_max, suspects, lease_ms, lane_max, limited, probe, memory_token)
    join __schema__.subscriptions s on s.no = w.subscription
    where (s.status in ('active', 'draining') or (w.probe and s.status = 'suspended'))
      -- a caller that does not know yet that the subscription has a limit gets nothing until it knows
      and (w.limited or not __schema__.is_limited(s.max_concurrency, s.rate_per_second, s.ramp))
      -- another process may have older events of the same lanes in its memory, also while it moves them to the database
      and not exists (
        select from __schema__.memory_queues m
        where m.subscription = w.subscription and (m.token = w.memory_token) is not true)
  ),
  -- Runs that expire within a minute go first.
  urgent as materialized (
    select w.events_max, w.urgent_events_max, w.lease_ms, w.lane_max, r.*
    from wanted w
    cross join lateral (
      select r.id, r.subscription, r.event_ids, r.first_id, r.ordering_key, r.tags, r.expires_at, r.max_failures, r.suspect
      from __schema__.runs r
      where r.subscription = w.subscription and r.state = 'ready' and not r.suspect and r.first_id <= w.last_id
        and r.expires_at > __schema__.clock() and r.expires_at <= __schema__.clock() + interval '60 s'
      order by r.expires_at
      limit w.urgent_runs_max
      for update skip locked
    ) as r
  ),
  oldest as materialized (
    select w.events_max, w.urgent_events_max, w.lease_ms, w.lane_max, r.*
    from wanted w
    cross join lateral (
      select r.id, r.subscription, r.event_ids, r.first_id, r.ordering_key, r.tags, r.expires_at, r.max_failures, r.suspect
      from __schema__.runs r
      where r.subscription = w.subscription and r.state = 'ready' and r.first_id <= w.last_id
        and (w.suspects or not r.suspect)
        and (r.expires_at is null or r.expires_at > __schema__.clock())
      order by r.first_id
      limit w.runs_max
      for update skip locked
    ) as r
  ),
  found as materialized (
    select 0 as urgency, u.* from urgent u
    union all
    select 1, o.* from oldest o where o.id not in (select u.id from urgent u)
  ),
  counted as materialized (
    select s.*,
      sum(s.offered) over (partition by s.subscription, s.urgency order by s.first_id, s.id) - s.offered as before,
      case s.urgency when 0 then s.urgent_events_max
        else s.events_max - least(s.urgent_events_max,
          coalesce(sum(s.offered) filter (where s.urgency = 0) over (partition by s.subscription), 0))
      end as room,
      row_number() over by_age as rank,
      bool_or(s.suspect) over by_age as at_suspect
    from (
      select f.*, case when f.suspect then 1 when f.ordering_key is null then cardinality(f.event_ids)
        else least(cardinality(f.event_ids), f.lane_max) end as offered
      from found f
    ) as s
    window by_age as (partition by s.subscription order by s.urgency, s.first_id, s.id)
  ),
  taken as materialized (
    select c.*, least(c.offered, c.room - c.before)::smallint as granted
    from counted c
    where c.before < c.room
      -- one suspect per call, whatever its subscription: two that are out together are charged together
      and (not c.at_suspect or c.id = (
        select f.id from counted f where f.suspect and f.rank = 1 order by f.urgency, f.first_id, f.id limit 1))
  ),
  -- The rest of a run without a lane is for others. The rest of a lane stays in the run: no other worker may have it.
  left_behind as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, tags, expires_at, max_failures)
    select t.subscription, 'ready', t.event_ids[t.granted + 1:], t.event_ids[t.granted + 1], t.tags,
      t.expires_at, t.max_failures
    from taken t
    where t.ordering_key is null and t.granted < cardinality(t.event_ids)
  ),
  leased as (
    update __schema__.runs r
    set state = 'leased',
      event_ids = case when t.ordering_key is null then t.event_ids[1:t.granted] else t.event_ids end,
      token = $10, worker = $11, granted = t.granted, cancelled = null,
      leased_at = __schema__.clock(), leased_until = __schema__.clock() + t.lease_ms * interval '1 ms',
      lease_ms = t.lease_ms,
      begun = case when $12::boolean then t.event_ids[1:t.granted] end
    from taken t
    where r.id = any(array(select t.id from taken t)) and r.id = t.id
    returning r.id, r.subscription, r.event_ids, r.ordering_key, r.granted, r.attempts, r.failures, r.suspect,
      r.leased_until, r.expires_at
  ),
  given as materialized (
    select l.id, u.event_id, u.place
    from leased l
    cross join lateral unnest(l.event_ids[1:l.granted]) with ordinality as u(event_id, place)
  )
  -- One row per delivery. What belongs to the run comes with its first delivery only.
  select l.id, g.place,
    case when g.place = 1 then array[l.subscription, l.attempts, l.failures, (l.ordering_key is not null)::int,
      l.suspect::int, case when l.expires_at is not null
        then floor(least(date_part('epoch', l.expires_at - l.leased_until) * 1000, 2147483647))::int end] end,
    case when g.place = 1 then date_part('epoch', l.leased_until) * 1000 end,
    e.id, e.type,
    -- Payloads up to $13 bytes in all; the oldest is always among them.
    case when $13::bigint is null or e.id <= (
      select max(b.id)
      from (
        select e.id, sum(octet_length(e.payload)) over (order by e.id) - octet_length(e.payload) as bytes_before
        from given g
        join __schema__.events e on e.id = g.event_id
        where e.id = any(array(select g.event_id from given g))
      ) as b
      where b.bytes_before < $13) then e.payload end,
    e.ordering_key, date_part('epoch', e.created_at) * 1000, __schema__.rare_fields(e),
    case when g.place = 1 and l.ordering_key is distinct from e.ordering_key then l.ordering_key end
  from given g
  join leased l on l.id = g.id
  join __schema__.events e on e.id = g.event_id
  where e.id = any(array(select g.event_id from given g))`,
)

/** The same for runs with any of the tags in $14. */
export const leaseTaggedStatement = defineStatement(
  'lease_tagged',
  `with wanted as materialized (
    select w.subscription, w.events_max, w.runs_max, w.suspects, w.lease_ms, w.lane_max,
      coalesce(s.drain_fence, 9223372036854775807) as last_id,
      greatest(w.events_max / 2, $10::bigint % 2) as urgent_events_max,
      greatest(w.runs_max / 2, $10 % 2) as urgent_runs_max
    from unnest($1::int[], $2::int[], $3::int[], $4::boolean[], $5::int[], $6::int[], $7::boolean[], $8::boolean[],
        $9::bigint[])
      as w(subscription, events_max, runs_max, suspects, lease_ms, lane_max, limited, probe, memory_token)
    join __schema__.subscriptions s on s.no = w.subscription
    where (s.status in ('active', 'draining') or (w.probe and s.status = 'suspended'))
      and (w.limited or not __schema__.is_limited(s.max_concurrency, s.rate_per_second, s.ramp))
      and not exists (
        select from __schema__.memory_queues m
        where m.subscription = w.subscription and (m.token = w.memory_token) is not true)
  ),
  urgent as materialized (
    select w.events_max, w.urgent_events_max, w.lease_ms, w.lane_max, r.*
    from wanted w
    cross join lateral (
      select r.id, r.subscription, r.event_ids, r.first_id, r.ordering_key, r.tags, r.expires_at, r.max_failures, r.suspect
      from __schema__.runs r
      where r.subscription = w.subscription and r.state = 'ready' and not r.suspect and r.first_id <= w.last_id
        and r.tags && $14::text[]
        and r.expires_at > __schema__.clock() and r.expires_at <= __schema__.clock() + interval '60 s'
      order by r.expires_at
      limit w.urgent_runs_max
      for update skip locked
    ) as r
  ),
  -- Each tag offers its oldest runs.
  oldest as materialized (
    select distinct on (r.id) w.events_max, w.urgent_events_max, w.lease_ms, w.lane_max, r.*
    from wanted w
    cross join unnest($14) as t(tag)
    cross join lateral (
      select o.*
      from __schema__.ready_tags g
      cross join lateral (
        select r.id, r.subscription, r.event_ids, r.first_id, r.ordering_key, r.tags, r.expires_at, r.max_failures,
          r.suspect
        from __schema__.runs r
        where r.id = g.run_id and r.state = 'ready' and r.first_id <= w.last_id
          and (w.suspects or not r.suspect)
          and (r.expires_at is null or r.expires_at > __schema__.clock())
        for update skip locked
      ) as o
      where g.subscription = w.subscription and g.tag = t.tag
      order by g.first_id
      limit w.runs_max
    ) as r
    order by r.id
  ),
  found as materialized (
    select 0 as urgency, u.* from urgent u
    union all
    select 1, o.* from oldest o where o.id not in (select u.id from urgent u)
  ),
  counted as materialized (
    select s.*,
      sum(s.offered) over (partition by s.subscription, s.urgency order by s.first_id, s.id) - s.offered as before,
      case s.urgency when 0 then s.urgent_events_max
        else s.events_max - least(s.urgent_events_max,
          coalesce(sum(s.offered) filter (where s.urgency = 0) over (partition by s.subscription), 0))
      end as room,
      row_number() over by_age as rank,
      bool_or(s.suspect) over by_age as at_suspect
    from (
      select f.*, case when f.suspect then 1 when f.ordering_key is null then cardinality(f.event_ids)
        else least(cardinality(f.event_ids), f.lane_max) end as offered
      from found f
    ) as s
    window by_age as (partition by s.subscription order by s.urgency, s.first_id, s.id)
  ),
  taken as materialized (
    select c.*, least(c.offered, c.room - c.before)::smallint as granted
    from counted c
    where c.before < c.room
      and (not c.at_suspect or c.id = (
        select f.id from counted f where f.suspect and f.rank = 1 order by f.urgency, f.first_id, f.id limit 1))
  ),
  left_behind as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, tags, expires_at, max_failures)
    select t.subscription, 'ready', t.event_ids[t.granted + 1:], t.event_ids[t.granted + 1], t.tags,
      t.expires_at, t.max_failures
    from taken t
    where t.ordering_key is null and t.granted < cardinality(t.event_ids)
  ),
  leased as (
    update __schema__.runs r
    set state = 'leased',
      event_ids = case when t.ordering_key is null then t.event_ids[1:t.granted] else t.event_ids end,
      token = $10, worker = $11, granted = t.granted, cancelled = null,
      leased_at = __schema__.clock(), leased_until = __schema__.clock() + t.lease_ms * interval '1 ms',
      lease_ms = t.lease_ms,
      begun = case when $12::boolean then t.event_ids[1:t.granted] end
    from taken t
    where r.id = any(array(select t.id from taken t)) and r.id = t.id
    returning r.id, r.subscription, r.event_ids, r.ordering_key, r.granted, r.attempts, r.failures, r.suspect,
      r.leased_until, r.expires_at
  ),
  given as materialized (
    select l.id, u.event_id, u.place
    from leased l
    cross join lateral unnest(l.event_ids[1:l.granted]) with ordinality as u(event_id, place)
  )
  select l.id, g.place,
    case when g.place = 1 then array[l.subscription, l.attempts, l.failures, (l.ordering_key is not null)::int,
      l.suspect::int, case when l.expires_at is not null
        then floor(least(date_part('epoch', l.expires_at - l.leased_until) * 1000, 2147483647))::int end] end,
    case when g.place = 1 then date_part('epoch', l.leased_until) * 1000 end,
    e.id, e.type,
    case when $13::bigint is null or e.id <= (
      select max(b.id)
      from (
        select e.id, sum(octet_length(e.payload)) over (order by e.id) - octet_length(e.payload) as bytes_before
        from given g
        join __schema__.events e on e.id = g.event_id
        where e.id = any(array(select g.event_id from given g))
      ) as b
      where b.bytes_before < $13) then e.payload end,
    e.ordering_key, date_part('epoch', e.created_at) * 1000, __schema__.rare_fields(e),
    case when g.place = 1 and l.ordering_key is distinct from e.ordering_key then l.ordering_key end
  from given g
  join leased l on l.id = g.id
  join __schema__.events e on e.id = g.event_id
  where e.id = any(array(select g.event_id from given g))`,
)

/** Jumps along the index from one subscription to the next: its cost grows with those that have ready runs, not with all. */
export const findReadyStatement = defineStatement(
  'find_ready',
  `with recursive ready(subscription) as (
    select min(r.subscription) from __schema__.runs r where r.state = 'ready'
    union all
    select (
      select min(r.subscription) from __schema__.runs r
      where r.state = 'ready' and r.subscription > y.subscription)
    from ready y
    where y.subscription is not null
  )
  select y.subscription from ready y where y.subscription = any($1::int[])`,
)
