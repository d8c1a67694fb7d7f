-- States: a delivery has no row of its own, so its state is derived, and only here. The newest audit record of an event and
-- a subscription says what became of that delivery; a leased run that has begun it says that it is being attempted.
--
--   delivery_state      the rule for one delivery   } the same rules as in domain/status.ts; a test compares them
--   event_status        the rule for one event      }
--   delivery_status     the word that lists have for a delivery's state
--   delivery_states     every delivery of some events
--   event_states        the events themselves, with attempts and retries, for lists
--   in_flight           deliveries that are being attempted
--   worker_states       workers, and since when each is stale
--   unfinished          deliveries that wait or are leased

-- The state of a delivery, by its newest audit record and whether it is being attempted.
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

-- The word for a delivery in lists: what waits after a failure has failed, but has another attempt before it.
create function __schema__.delivery_status(state text, failures int) returns text language sql immutable as $$
  select case state
    when 'waiting' then case when failures > 0 then 'failed' else 'pending' end
    when 'leased' then 'delivering'
    when 'completed' then 'delivered'
    when 'buried' then 'dlq'
    when 'finalized' then 'dlq'
    else state
  end
$$;

-- The status of an event, by how many of its deliveries are in each state.
-- `unwanted`: the event matched no subscription, that was a mistake (require_route), and nobody has repaired it.
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

-- The deliveries that are being attempted now; a delivery whose run is leased but whose attempt has not begun is waiting.
-- `begun` may still name deliveries that have left the run: comparing the arrays as a whole costs little, looking up each of
-- 200 among 200 costs a lot. Takes a few event ids, or null for all.
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

-- All deliveries that are being attempted now.
create view __schema__.in_flight as select * from __schema__.in_flight_of(null);

-- All workers. A worker is stale since it was silent for 30 s, or since a lease of it ended: whichever came first. Deliveries that
-- it was granted and has not begun are not in flight.
create function __schema__.worker_states() returns table (
  no int, name text, seen_at timestamptz, in_flight int, holds_lease boolean, stale_since timestamptz, stale_reason text
) language sql stable as $$
  select w.no, w.name, w.seen_at, coalesce(a.deliveries, 0), h.worker is not null, s.stale_since,
    case s.stale_since when s.lapsed_since then 'lapsed_lease' when s.silent_since then 'silent' end
  from __schema__.workers w
  left join (
    select r.worker, min(r.leased_until) as first_end from __schema__.runs r where r.state = 'leased' group by r.worker
  ) as h on h.worker = w.no
  left join (
    select f.worker, count(*)::int as deliveries from __schema__.in_flight f group by f.worker
  ) as a on a.worker = w.no
  cross join lateral (
    select i.silent_since, i.lapsed_since, least(i.silent_since, i.lapsed_since) as stale_since
    from (
      select case when w.seen_at < __schema__.clock() - interval '30 s' then w.seen_at + interval '30 s' end as silent_since,
        case when h.first_end < __schema__.clock() then h.first_end end as lapsed_since
    ) as i
  ) as s
$$;

-- Every delivery that waits or is leased, wherever it is; an event that is owed to two subscriptions is here twice.
-- An unnest in the select list streams its rows; in the from list they would be stored first, which takes twice as long.
create view __schema__.unfinished as
  select unnest(r.event_ids) as event_id, r.subscription from __schema__.runs r
  union all
  select unnest(q.event_ids), q.subscription from __schema__.lane_queue q
  union all
  select unnest(i.event_ids), i.subscription from __schema__.inbox i;

-- The same with the lane of each delivery: the key it was queued by, even if the subscription has another key_pointer now.
create view __schema__.unfinished_lanes as
  select unnest(r.event_ids) as event_id, r.subscription, r.ordering_key from __schema__.runs r
  union all
  select unnest(q.event_ids), q.subscription, q.ordering_key from __schema__.lane_queue q
  union all
  select unnest(i.event_ids), i.subscription, unnest(i.ordering_keys) from __schema__.inbox i where i.event_ids is not null;

-- Every delivery of these events, or only those to some subscriptions. A success or a discard does not count attempts and
-- failures itself: `b` is the record before it that did. A record that a reclaim wrote about an attempt that was later
-- settled after all does not count.
create function __schema__.delivery_states(ids bigint[], subscriptions int[] default null) returns table (
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
  where e.id = any(ids) and (subscriptions is null or o.subscription = any(subscriptions))
$$;

-- The state of these events. Attempts and retries are those of the work queue if the event is owed to it, otherwise the
-- highest of all subscriptions; the next attempt is the earliest.
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
