-- Lists: where the next event of some state is, so that a list can jump over a long stretch of events in other states.

-- Unfinished deliveries that are not ordered by event id: lanes, leased runs, and the inbox.
create view __schema__.unfinished_unordered as
  select unnest(r.event_ids) as event_id, r.subscription
  from __schema__.runs r
  where r.several and r.ordering_key is not null
  union all
  select unnest(r.event_ids), r.subscription from __schema__.runs r where r.state = 'leased'
  union all
  select unnest(q.event_ids), q.subscription from __schema__.lane_queue q
  union all
  select unnest(i.event_ids), i.subscription from __schema__.inbox i;

-- The next event with an unfinished delivery, or with one to the subscription `queue`. The event ids of a run without an
-- ordering key are sorted, so its first and its last id tell
-- enough; lanes keep the order of commits, so they are read in full.
create function __schema__.next_unfinished(after bigint, queue int) returns bigint language sql stable as $$
  select least(
    (select min(r.first_id)
     from (select s.no from __schema__.subscriptions s where queue is null or s.no = queue) as s
     cross join lateral (
       select r.first_id from __schema__.runs r
       where r.subscription = s.no and r.state = 'ready' and r.first_id > after
       order by r.first_id
       limit 1
     ) as r),
    (select r.first_id from __schema__.runs r
     where r.state in ('deferred', 'delayed', 'held', 'gated', 'blocked') and r.first_id > after
       and (queue is null or r.subscription = queue)
     order by r.first_id
     limit 1),
    (select min(u.event_id)
     from (
       select unnest(r.event_ids) as event_id
       from __schema__.runs r
       where r.several and r.ordering_key is null and r.first_id <= after and (queue is null or r.subscription = queue)
         and r.event_ids[cardinality(r.event_ids)] > after
     ) as u
     where u.event_id > after),
    (select min(u.event_id) filter (where u.event_id > after)
     from __schema__.unfinished_unordered u
     where queue is null or u.subscription = queue))
$$;

-- The same in the other direction, for lists that begin with the newest.
create function __schema__.previous_unfinished(before bigint, queue int) returns bigint language sql stable as $$
  select greatest(
    (select max(r.first_id)
     from (select s.no from __schema__.subscriptions s where queue is null or s.no = queue) as s
     cross join lateral (
       select r.first_id from __schema__.runs r
       where r.subscription = s.no and r.state = 'ready' and r.first_id < before
       order by r.first_id desc
       limit 1
     ) as r),
    (select r.first_id from __schema__.runs r
     where r.state in ('deferred', 'delayed', 'held', 'gated', 'blocked') and r.first_id < before
       and (queue is null or r.subscription = queue)
     order by r.first_id desc
     limit 1),
    (select max(r.event_ids[cardinality(r.event_ids)])
     from __schema__.runs r
     where r.several and r.ordering_key is null and r.first_id < before and (queue is null or r.subscription = queue)
       and r.event_ids[cardinality(r.event_ids)] < before),
    (select max(u.event_id)
     from (
       select unnest(r.event_ids) as event_id
       from __schema__.runs r
       where r.several and r.ordering_key is null and r.first_id < before and (queue is null or r.subscription = queue)
         and r.event_ids[cardinality(r.event_ids)] >= before
     ) as u
     where u.event_id < before),
    (select max(u.event_id) filter (where u.event_id < before)
     from __schema__.unfinished_unordered u
     where queue is null or u.subscription = queue))
$$;

-- The next completed event: an attempt of it was completed, or no subscription wanted it.
create function __schema__.next_completed(after bigint) returns bigint language sql stable as $$
  select least(
    (select a.event_id from __schema__.audit a
     where a.event_id > after and a.settlement = 'completed' order by a.event_id limit 1),
    (select e.id from __schema__.events e where e.owed = '{}' and e.id > after order by e.id limit 1))
$$;

-- The same in the other direction.
create function __schema__.previous_completed(before bigint) returns bigint language sql stable as $$
  select greatest(
    (select a.event_id from __schema__.audit a
     where a.event_id < before and a.settlement = 'completed' order by a.event_id desc limit 1),
    (select e.id from __schema__.events e where e.owed = '{}' and e.id < before order by e.id desc limit 1))
$$;

-- The event id at a moment, found by bisection. Times do not strictly grow with ids. What is certain: no event below the
-- answer is later than the moment plus time_disorder(), and no event from the answer on is earlier than the moment minus it.
create function __schema__.event_id_at(moment timestamptz) returns bigint language plpgsql stable strict as $$
declare
  low bigint := (select min(e.id) from __schema__.events e);
  high bigint := (select max(e.id) + 1 from __schema__.events e);
  middle bigint;
  found record;
begin
  -- Events below `low` are before the moment, events from `high` on are not.
  while low < high loop
    middle := low + (high - low) / 2;
    select e.id, e.created_at into found from __schema__.events e where e.id >= middle order by e.id limit 1;
    if found.created_at < moment then low := found.id + 1; else high := middle; end if;
  end loop;
  return low;
end $$;
