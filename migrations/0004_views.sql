-- Reading. A delivery has no row, so its state is derived here and nowhere else: the newest audit record of
-- (event, subscription) tells what became of it, and a leased run that has begun it tells that it is in flight.
--
--   delivery_state      the rule for one delivery       \
--   event_status        the rule for one event           } the same rules as domain/status.ts; a test holds them together
--   delivery_states     every delivery of some events   /
--   event_states        the events themselves, for lists
--   event_statuses      the same, without any figures
--   event_log and the views below it                       what the seeds call their tables

-- With the settlement in it, a list steps over a million retries without reading one. Writing costs the same.
drop index __schema__.audit_event;
create index audit_event on __schema__.audit (event_id, settlement);
-- Tags stand in no order of ids. With the thousands of the id in it, a list steps over a stretch without a tag. A
-- short list of pending entries is read in 5 ms instead of 20, and stops a publisher for a third of the time.
drop index __schema__.events_tags;
create index events_tags on __schema__.events using gin (tags, (array[id >> 13])) with (gin_pending_list_limit = 1024)
  where tags is not null;
-- An event that no subscription wanted has no audit row to be found by.
create index events_unrouted on __schema__.events (id) where owed = '{}';
-- What was cancelled has no table of its own. None of these is on the path of a successful attempt.
create index audit_cancelled on __schema__.audit (event_id) where settlement in ('cancelled', 'discarded');
create index dead_letters_waiting on __schema__.dead_letters (kind, event_id) where redriven_at is null;
create index dead_letters_kind on __schema__.dead_letters (kind, id) where redriven_at is null;
-- Runs that are neither ready nor leased by age: retries, delays, gates. A run's happy path never enters it.
create index runs_aside on __schema__.runs (first_id) where state in ('deferred', 'delayed', 'held', 'gated', 'blocked');
-- Few rows hold most waiting deliveries, and they are found without reading past a million runs of one.
create index runs_several on __schema__.runs (first_id) where several;

create function __schema__.delivery_state(
  newest __schema__.settlement, cause __schema__.burial_cause, in_flight boolean
) returns text
  language sql immutable as $$
  select case
    when newest = 'completed' then 'completed'
    when newest = 'buried' then case when cause = 'finalized' then 'finalized' else 'buried' end
    when newest = 'expired' then 'expired'
    when newest in ('cancelled', 'discarded') then 'cancelled'
    when in_flight then 'leased'
    else 'waiting'
  end
$$;

-- `unwanted`: it matched no subscription, and that was a mistake which nobody has repaired.
create function __schema__.event_status(
  deliveries bigint, leased bigint, waiting bigint, cancelled bigint, completed bigint, finalized bigint, expired bigint,
  unwanted boolean
) returns text language sql immutable as $$
  select case
    when leased > 0 then 'PROCESSING'
    when waiting > 0 then 'PENDING'
    when deliveries = 0 then case when unwanted then 'FAILED' else 'COMPLETED' end
    when cancelled = deliveries then 'CANCELLED'
    when completed = deliveries - cancelled then 'COMPLETED'
    when expired = deliveries - cancelled then 'EXPIRED'
    when completed + finalized = 0 then 'FAILED'
    else 'COMPLETED_WITH_ERRORS'
  end
$$;

-- What is being attempted now. What a lease owns but has not begun is waiting. `begun` may still name deliveries
-- that have left the run; to compare the arrays whole costs little, and to look up each of 200 among 200 a lot.
-- With a few ids, or null for all.
create function __schema__.in_flight_of(ids bigint[]) returns table (
  event_id bigint, subscription int, worker int, leased_at timestamptz, leased_until timestamptz
) language sql stable as $$
  select f.event_id, f.subscription, f.worker, f.leased_at, f.leased_until
  from (
    select unnest(
        case when r.begun = r.event_ids[1:cardinality(r.begun)] then r.begun
          else array(select unnest(r.begun) intersect select unnest(r.event_ids)) end) as event_id,
      r.subscription, r.worker, r.leased_at, r.leased_until
    from __schema__.runs r
    where r.state = 'leased' and r.begun is not null and (ids is null or cardinality(ids) > 20 or r.begun && ids)
  ) as f
  where ids is null or f.event_id in (select unnest(ids))
$$;

create view __schema__.in_flight as select * from __schema__.in_flight_of(null);

-- Every delivery that is waiting or leased, wherever it waits; an event that is owed several times is here as often.
-- An unnest in the select list streams; in the from list it would be stored row by row, at twice the time.
create view __schema__.unfinished as
  select unnest(r.event_ids) as event_id, r.subscription from __schema__.runs r
  union all
  select unnest(q.event_ids), q.subscription from __schema__.lane_queue q
  union all
  select unnest(i.event_ids), i.subscription from __schema__.inbox i;

-- The same with the key that orders each: the lane that it was put into, whatever the subscription orders by now.
create view __schema__.unfinished_lanes as
  select unnest(r.event_ids) as event_id, r.subscription, r.ordering_key from __schema__.runs r
  union all
  select unnest(q.event_ids), q.subscription, q.ordering_key from __schema__.lane_queue q
  union all
  select unnest(i.event_ids), i.subscription, unnest(i.ordering_keys) from __schema__.inbox i where i.event_ids is not null;

-- The part of it that stands in no order of ids: lanes, what is out, and what has just come in.
create view __schema__.unfinished_unordered as
  select unnest(r.event_ids) as event_id
  from __schema__.runs r
  where r.several and r.ordering_key is not null
  union all
  select unnest(r.event_ids) from __schema__.runs r where r.state = 'leased'
  union all
  select unnest(q.event_ids) from __schema__.lane_queue q
  union all
  select unnest(i.event_ids) from __schema__.inbox i;

-- A success and a discarding count nothing themselves: `b` is the record before them that did. What a reclaim wrote of
-- an attempt that was then settled late does not count.
create function __schema__.delivery_states(ids bigint[]) returns table (
  event_id bigint,
  subscription int,
  state text,
  attempts int,
  failures int,
  next_at timestamptz,
  last_error text,
  last_error_at timestamptz,
  worker int,
  leased_at timestamptz,
  leased_until timestamptz,
  updated_at timestamptz
) language sql stable as $$
  with flying as materialized (select * from __schema__.in_flight_of(ids))
  select e.id, o.subscription, s.state,
    coalesce(greatest(n.attempt, b.attempt), 0) + case when s.state = 'leased' then 1 else 0 end,
    coalesce(b.failures, n.failures, 0), case when s.state = 'waiting' then n.next_at end, f.reason, f.finished_at,
    case when s.state = 'leased' then l.worker else n.worker end,
    case when s.state = 'leased' then l.leased_at end, case when s.state = 'leased' then l.leased_until end,
    greatest(e.created_at, n.finished_at, l.leased_at)
  from __schema__.events e
  cross join lateral unnest(e.owed) as o(subscription)
  left join lateral (
    select a.settlement, a.attempt, a.failures, a.next_at, a.finished_at, a.worker, a.cause, a.token
    from __schema__.audit a
    where a.event_id = e.id and a.subscription = o.subscription
    order by a.id desc
    limit 1
  ) as n on true
  left join lateral (
    select a.attempt, a.failures
    from __schema__.audit a
    where (n.settlement = 'discarded' or (n.settlement = 'completed' and n.attempt > 1))
      and a.event_id = e.id and a.subscription = o.subscription and a.settlement not in ('completed', 'discarded')
      and a.token is distinct from n.token
    order by a.id desc
    limit 1
  ) as b on true
  left join lateral (
    select coalesce(a.reason, 'lease expired') as reason, a.finished_at
    from __schema__.audit a
    where a.event_id = e.id and a.subscription = o.subscription
      and a.settlement in ('retried', 'lease_expired', 'buried', 'expired')
    order by a.id desc
    limit 1
  ) as f on true
  left join flying l on l.event_id = e.id and l.subscription = o.subscription
  cross join lateral (select __schema__.delivery_state(n.settlement, n.cause, l.event_id is not null) as state) as s
  where e.id = any(ids)
$$;

-- The work delivery's figures where there is one, else the largest (the next attempt: the earliest) of all.
create function __schema__.event_states(ids bigint[]) returns table (
  event_id bigint,
  status text,
  attempts int,
  retry_count int,
  max_retries int,
  next_retry_at timestamptz,
  updated_at timestamptz
) language sql stable as $$
  with flying as materialized (select * from __schema__.in_flight_of(ids)),
  newest as materialized (
    select distinct on (a.event_id, a.subscription) a.event_id, a.subscription, a.settlement, a.attempt, a.failures,
      a.next_at, a.finished_at, a.cause, a.token
    from (select distinct unnest(ids) as id) as w
    join __schema__.audit a on a.event_id = w.id
    order by a.event_id, a.subscription, a.id desc
  ),
  delivery as (
    select e.id, e.created_at, e.max_retries, o.subscription,
      __schema__.delivery_state(n.settlement, n.cause, f.event_id is not null) as state,
      coalesce(greatest(n.attempt, b.attempt), 0) as attempt, coalesce(b.failures, n.failures, 0) as failures, n.next_at,
      greatest(n.finished_at, f.leased_at) as touched_at, (s.retry->>'failuresMax')::int as failures_max
    from (select distinct unnest(ids) as id) as w
    join __schema__.events e on e.id = w.id
    left join lateral unnest(e.owed) as o(subscription) on true
    left join newest n on n.event_id = e.id and n.subscription = o.subscription
    left join lateral (
      select a.attempt, a.failures
      from __schema__.audit a
      where (n.settlement = 'discarded' or (n.settlement = 'completed' and n.attempt > 1))
        and a.event_id = e.id and a.subscription = o.subscription and a.settlement not in ('completed', 'discarded')
        and a.token is distinct from n.token
      order by a.id desc
      limit 1
    ) as b on true
    left join flying f on f.event_id = e.id and f.subscription = o.subscription
    left join __schema__.subscriptions s on s.no = o.subscription
  )
  select d.id,
    __schema__.event_status(
      count(d.subscription),
      count(d.subscription) filter (where d.state = 'leased'),
      count(d.subscription) filter (where d.state = 'waiting'),
      count(d.subscription) filter (where d.state = 'cancelled'),
      count(d.subscription) filter (where d.state = 'completed'),
      count(d.subscription) filter (where d.state = 'finalized'),
      count(d.subscription) filter (where d.state = 'expired'),
      count(d.subscription) = 0 and exists (
        select 1 from __schema__.dead_letters l
        where l.event_id = d.id and l.subscription is null and l.redriven_at is null)),
    coalesce(
      max(d.attempt + case when d.state = 'leased' then 1 else 0 end) filter (where d.subscription = 0),
      max(d.attempt + case when d.state = 'leased' then 1 else 0 end)),
    coalesce(max(d.failures) filter (where d.subscription = 0), max(d.failures)),
    coalesce(min(d.max_retries), max(d.failures_max) filter (where d.subscription = 0), max(d.failures_max)),
    case
      when bool_or(d.subscription = 0) then min(d.next_at) filter (where d.subscription = 0 and d.state = 'waiting')
      else min(d.next_at) filter (where d.state = 'waiting')
    end,
    greatest(min(d.created_at), max(d.touched_at))
  from delivery d
  group by d.id
$$;

-- Only the status, for the few that a list can't tell by counting their records.
create function __schema__.event_statuses(ids bigint[]) returns table (event_id bigint, status text)
  language sql stable as $$
  with newest as materialized (
    select distinct on (a.event_id, a.subscription) a.event_id,
      __schema__.delivery_state(a.settlement, a.cause, false) as state
    from __schema__.audit a
    where a.event_id = any((select ids)::bigint[])
    order by a.event_id, a.subscription, a.id desc
  ),
  counted as materialized (
    select n.event_id, count(*) filter (where n.state <> 'waiting') as ended,
      count(*) filter (where n.state = 'cancelled') as cancelled,
      count(*) filter (where n.state = 'completed') as completed,
      count(*) filter (where n.state = 'finalized') as finalized,
      count(*) filter (where n.state = 'expired') as expired
    from newest n
    group by n.event_id
  )
  select e.id,
    __schema__.event_status(
      cardinality(e.owed),
      case when d.ended < cardinality(e.owed) and e.id in (select f.event_id from __schema__.in_flight f) then 1 else 0 end,
      cardinality(e.owed) - d.ended, d.cancelled, d.completed, d.finalized, d.expired,
      e.owed = '{}' and exists (
        select 1 from __schema__.dead_letters l
        where l.event_id = e.id and l.subscription is null and l.redriven_at is null))
  from __schema__.events e
  left join counted c on c.event_id = e.id
  cross join lateral (
    select coalesce(c.ended, 0) as ended, coalesce(c.cancelled, 0) as cancelled, coalesce(c.completed, 0) as completed,
      coalesce(c.finalized, 0) as finalized, coalesce(c.expired, 0) as expired
  ) as d
  where e.id = any((select ids)::bigint[])
$$;

-- Where the next unfinished event stands, for a list that has met a stretch of finished ones. Unkeyed runs are in
-- the order of their ids, so their ends tell enough; lanes keep the order of commits and are looked through.
create function __schema__.next_unfinished(after bigint) returns bigint language sql stable as $$
  select least(
    (select min(r.first_id)
     from __schema__.subscriptions s
     cross join lateral (
       select r.first_id from __schema__.runs r
       where r.subscription = s.no and r.state = 'ready' and r.first_id > after
       order by r.first_id
       limit 1
     ) as r),
    (select r.first_id from __schema__.runs r
     where r.state in ('deferred', 'delayed', 'held', 'gated', 'blocked') and r.first_id > after
     order by r.first_id
     limit 1),
    (select min(u.event_id)
     from (
       select unnest(r.event_ids) as event_id
       from __schema__.runs r
       where r.several and r.ordering_key is null and r.first_id <= after
         and r.event_ids[cardinality(r.event_ids)] > after
     ) as u
     where u.event_id > after),
    (select min(u.event_id) filter (where u.event_id > after) from __schema__.unfinished_unordered u))
$$;

create function __schema__.previous_unfinished(before bigint) returns bigint language sql stable as $$
  select greatest(
    (select max(r.first_id)
     from __schema__.subscriptions s
     cross join lateral (
       select r.first_id from __schema__.runs r
       where r.subscription = s.no and r.state = 'ready' and r.first_id < before
       order by r.first_id desc
       limit 1
     ) as r),
    (select r.first_id from __schema__.runs r
     where r.state in ('deferred', 'delayed', 'held', 'gated', 'blocked') and r.first_id < before
     order by r.first_id desc
     limit 1),
    (select max(r.event_ids[cardinality(r.event_ids)])
     from __schema__.runs r
     where r.several and r.ordering_key is null and r.first_id < before
       and r.event_ids[cardinality(r.event_ids)] < before),
    (select max(u.event_id)
     from (
       select unnest(r.event_ids) as event_id
       from __schema__.runs r
       where r.several and r.ordering_key is null and r.first_id < before
         and r.event_ids[cardinality(r.event_ids)] >= before
     ) as u
     where u.event_id < before),
    (select max(u.event_id) filter (where u.event_id < before) from __schema__.unfinished_unordered u))
$$;

-- The same for completed ones: such an event has an attempt that completed, or nobody wanted it.
create function __schema__.next_completed(after bigint) returns bigint language sql stable as $$
  select least(
    (select a.event_id from __schema__.audit a
     where a.event_id > after and a.settlement = 'completed' order by a.event_id limit 1),
    (select e.id from __schema__.events e where e.owed = '{}' and e.id > after order by e.id limit 1))
$$;

create function __schema__.previous_completed(before bigint) returns bigint language sql stable as $$
  select greatest(
    (select a.event_id from __schema__.audit a
     where a.event_id < before and a.settlement = 'completed' order by a.event_id desc limit 1),
    (select e.id from __schema__.events e where e.owed = '{}' and e.id < before order by e.id desc limit 1))
$$;

-- Where in the ids a moment falls, by halving. Times do not strictly grow with ids: all that is certain is that no event below
-- the answer is as late as the moment plus time_disorder(), and none from there on is earlier than the moment minus that.
create function __schema__.event_id_at(moment timestamptz) returns bigint language plpgsql stable strict as $$
declare
  low bigint := (select min(e.id) from __schema__.events e);
  high bigint := (select max(e.id) + 1 from __schema__.events e);
  middle bigint;
  found record;
begin
  -- Every id below `low` is before the moment, every one from `high` on is not.
  while low < high loop
    middle := low + (high - low) / 2;
    select e.id, e.created_at into found from __schema__.events e where e.id >= middle order by e.id limit 1;
    if found.created_at < moment then low := found.id + 1; else high := middle; end if;
  end loop;
  return low;
end $$;

-- An entry of the log is known by its time, so that its id is the same while the lease is in force and after it was
-- settled. In steps of 256 µs since 2026, which leaves room below 2^53 until 2043, then 1,024 places for what was done
-- in one statement, then the order within an attempt. Unique within an event, and nearly always among all.
create function __schema__.log_id(at timestamptz, event_id bigint, subscription int, step int) returns bigint
  language sql immutable as $$
  select floor((extract(epoch from at) - 1767225600) * 3906.25)::bigint * 4096
    + ((event_id + subscription) & 1023) * 4 + step
$$;

-- Every record of an attempt makes up to three entries. A worker that settles after its lease was taken back has been picked only once. When an attempt began is
-- known by the worker's own watch, so it is logged no later than it was settled.
create view __schema__.written_log as
  with entry as (
    select a.event_id, a.subscription, a.worker, 0 as step, 'PICKED' as action, null::smallint as status_code,
      null::text as error_message, null::int as execution_time_ms, a.leased_at as created_at, a.leased_at as logged_at
    from __schema__.audit a
    where a.leased_at is not null and not exists (
      select 1 from __schema__.audit b
      where b.event_id = a.event_id and b.subscription = a.subscription and b.token = a.token and b.attempt = a.attempt
        and b.id < a.id)
    union all
    select a.event_id, a.subscription, a.worker, 1, 'STARTED', null, null, null, a.started_at, least(a.started_at, a.finished_at)
    from __schema__.audit a
    where a.started_at is not null and not exists (
      select 1 from __schema__.audit b
      where b.event_id = a.event_id and b.subscription = a.subscription and b.token = a.token and b.attempt = a.attempt
        and b.id < a.id
        and b.started_at is not null)
    union all
    select t.event_id, t.subscription, t.worker, 1, 'STARTED', null, null, null, t.started_at, t.started_at
    from __schema__.starts t
    union all
    select a.event_id, a.subscription, a.worker, 2,
      case a.settlement
        when 'completed' then 'COMPLETED'
        when 'retried' then 'FAILED'
        when 'lease_expired' then 'FAILED'
        when 'buried' then case __schema__.delivery_state(a.settlement, a.cause, false)
          when 'finalized' then 'COMPLETED_WITH_ERRORS' else 'FAILED' end
        when 'snoozed' then 'SNOOZED'
        when 'released' then 'RELEASED'
        when 'reset' then 'RESET'
        when 'expired' then 'EXPIRED'
        when 'cancelled' then 'CANCELLED'
        when 'discarded' then 'DISCARDED'
        when 'redriven' then 'REDRIVEN'
      end,
      a.status_code, case when a.settlement = 'lease_expired' then 'lease expired' else a.reason end, a.execution_ms,
      a.finished_at, a.finished_at
    from __schema__.audit a
  )
  select __schema__.log_id(l.logged_at, l.event_id, l.subscription, l.step) as id, l.event_id, l.subscription,
    w.name as worker_id, l.action, l.status_code, l.error_message, l.execution_time_ms, l.created_at
  from entry l
  left join __schema__.workers w on w.no = l.worker;

-- A lease in force is the PICKED that is not yet written.
create view __schema__.event_log as
  select * from __schema__.written_log
  union all
  select __schema__.log_id(f.leased_at, f.event_id, f.subscription, 0), f.event_id, f.subscription, w.name, 'PICKED', null,
    null, null, f.leased_at
  from __schema__.in_flight f
  left join __schema__.workers w on w.no = f.worker;

create view __schema__.event_queue as
  select e.id, e.type, e.payload, s.status, s.attempts, e.created_at, s.updated_at
  from (select distinct u.event_id from __schema__.unfinished u) as q
  join __schema__.events e on e.id = q.event_id
  cross join lateral __schema__.event_states(array[q.event_id]) as s;

-- What failed for good stays until its dead letter is retried or discarded, with no retry left: whoever looks for work
-- where retry < max_retry passes it over.
create view __schema__.outbox_events as
  select e.id, e.created_at as create_date, coalesce(e.type, e.title) as name, e.payload, e.ordering_key as group_id,
    case when q.waits then s.retry_count else greatest(s.retry_count, s.max_retries) end as retry,
    s.max_retries as max_retry
  from (
    select o.event_id, bool_or(o.waits) as waits
    from (
      select u.event_id, true as waits from __schema__.unfinished u
      union all
      select l.event_id, false from __schema__.dead_letters l where l.kind = 'buried' and l.redriven_at is null
    ) as o
    group by o.event_id
  ) as q
  join __schema__.events e on e.id = q.event_id
  cross join lateral __schema__.event_states(array[q.event_id]) as s;

create view __schema__.subscribers as
  select s.id, s.name, s.via, s.types as event_types, s.tags, s.status, s.status not in ('paused', 'deleted') as is_active,
    s.on_exhausted, s.retry, s.timeout_ms, s.max_concurrency, s.rate_per_second, s.created_at, s.updated_at
  from __schema__.subscriptions s;

-- When the event of a snapshot was published: its last member. Cut out as text, since to reach into the document is to
-- decode all of it, and a payload may hold what no text can, such as an escaped NUL.
create function __schema__.snapshot_time(snapshot json) returns timestamptz language sql stable as $$
  select substring(snapshot::text from '"created_at" : "([^"]+)"[}]$')::timestamptz
$$;

create view __schema__.dead_letter_queue as
  select l.id,
    __schema__.delivery_id(__schema__.snapshot_time(l.event_snapshot), l.event_id, l.subscription) as message_id,
    l.event_snapshot, l.subscription_snapshot as subscriber_snapshot, l.reason as failure_reason,
    l.buried_at as moved_to_dlq_at, l.redriven_by as manual_retry_by, l.redriven_at as manual_retry_at
  from __schema__.dead_letters l;
