-- Repair: moves of waiting deliveries that several statements share.
--
--   take_out       takes waiting deliveries out of runs and lanes: to cancel them, or to bury them
--   remove_rows    removes whole runs and chunks: they have expired, or their subscription was deleted
--   enter_again    lets finished deliveries wait again: redrive, recover, replay
--   resume_lanes   lets blocked lanes go on without their buried heads

-- Takes the deliveries of these events out of the runs and lanes in which they wait. Those that a worker may attempt stay
-- where they are: the run notes in `cancelled` that they are to stop, and they are returned with `is_leased`.
--
--   runs: nothing left ──▶ deleted, and a note in the inbox: the lane, or the gate, has room
--         some left ─────▶ shorter; the run of a lane whose head is gone is ready, its head's wait for a retry is over
--         head gone, and the lane stops at a burial ──▶ blocked
--   lane_queue: chunks deleted, or shorter
--
-- Rows that another session has locked are left alone: a caller that waited for them here would hold up everybody whose rows
-- it has locked already. Callers ask again until nothing is left.
create function __schema__.take_out(
  ids bigint[],
  queue int,               -- only deliveries of this subscription; null: of all
  to_bury boolean,         -- leaves runs alone in which a worker may attempt one of the deliveries
  stops_lanes boolean      -- a lane stops where its head is taken out, if its subscription says so
) returns table (
  run_id bigint, subscription int, event_id bigint, is_leased boolean, attempts int, failures int,
  stopped_lane text        -- the ordering key of the lane that stops at this delivery
) language sql as $$
  with hit_runs as materialized (
    select r.id, r.subscription, r.state, r.event_ids, r.ordering_key, r.position, r.concurrency_key, r.attempts,
      r.failures, coalesce(r.granted, 0) as granted
    from __schema__.runs r
    where r.event_ids && ids and (queue is null or r.subscription = queue)
      and not (to_bury and r.state = 'leased' and r.event_ids[1:r.granted] && ids)
    order by r.id
    for update skip locked
  ),
  hit_chunks as materialized (
    select q.subscription, q.ordering_key, q.position, q.event_ids, q.attempts
    from __schema__.lane_queue q
    where q.event_ids && ids and (queue is null or q.subscription = queue)
    order by q.subscription, q.ordering_key, q.position
    for update skip locked
  ),
  hit as materialized (
    select h.id as run_id, h.subscription, u.event_id,
      h.state = 'leased' and u.place <= h.granted as is_leased,
      case when u.place = 1 then h.attempts else 0 end as attempts,
      case when u.place = 1 then h.failures else 0 end as failures
    from hit_runs h
    cross join lateral unnest(h.event_ids) with ordinality as u(event_id, place)
    where u.event_id = any(ids)
    union all
    select null, h.subscription, u.event_id, false, h.attempts, 0
    from hit_chunks h
    cross join lateral unnest(h.event_ids) as u(event_id)
    where u.event_id = any(ids)
  ),
  left_over as materialized (
    select h.*,
      stops_lanes and h.ordering_key is not null and h.state not in ('leased', 'delayed', 'held', 'blocked')
        and h.event_ids[1] = any(ids)
        and exists (
          select 1 from __schema__.subscriptions p where p.no = h.subscription and p.on_exhausted = 'block') as stops,
      array(
        select u.event_id
        from unnest(h.event_ids) with ordinality as u(event_id, place)
        where u.event_id <> all(ids) or (h.state = 'leased' and u.place <= h.granted)
        order by u.place) as remaining,
      (select count(*) from unnest(h.event_ids[1:h.granted]) as u(event_id)
       where u.event_id <> all(ids) or h.state = 'leased')::smallint as still_granted
    from hit_runs h
  ),
  gone as (
    delete from __schema__.runs r
    where r.id = any(array(
      select l.id from left_over l where l.remaining = '{}' and l.state <> 'blocked' and not l.stops))
  ),
  kept as (
    update __schema__.runs r
    set event_ids = l.remaining, first_id = coalesce(l.remaining[1], r.first_id),
      attempts = case when l.remaining[1] = l.event_ids[1] then r.attempts else 0 end,
      failures = case when l.remaining[1] = l.event_ids[1] then r.failures else 0 end,
      -- No gate has to let the lane go on: a run with a concurrency key is one delivery.
      state = (case when l.stops then 'blocked' when l.goes_on then 'ready' else l.state::text end)::__schema__.run_state,
      due_at = case when l.stops or l.goes_on then null else r.due_at end,
      -- The holder of a lease that was taken back may still settle the deliveries it was granted, and none behind them.
      token = case when l.fenced then r.token end,
      granted = case when l.fenced then l.still_granted end,
      begun = case when l.fenced then r.begun end,
      suspect = r.suspect and coalesce(l.remaining[1] = l.event_ids[1], false),
      blocked_by = case when l.stops then l.event_ids[1] else r.blocked_by end,
      cancelled = case when l.state = 'leased'
        then r.cancelled || array(
          select h.event_id from hit h
          where h.run_id = l.id and h.is_leased and h.event_id <> all(coalesce(r.cancelled, '{}'))) end
    from (
      select o.*, o.ordering_key is not null and o.state = 'deferred' and o.remaining[1] <> o.event_ids[1] as goes_on,
        o.still_granted > 0 and not o.stops as fenced
      from left_over o
    ) as l
    where r.id = any(array(select h.id from hit_runs h)) and r.id = l.id
      and (l.remaining <> '{}' or l.state = 'blocked' or l.stops)
  ),
  gone_chunks as (
    delete from __schema__.lane_queue q
    using hit_chunks h
    where q.subscription = h.subscription and q.ordering_key = h.ordering_key and q.position = h.position
      and h.event_ids <@ ids
  ),
  kept_chunks as (
    update __schema__.lane_queue q
    set event_ids = array(
      select u.event_id from unnest(h.event_ids) with ordinality as u(event_id, place)
      where u.event_id <> all(ids) order by u.place)
    from hit_chunks h
    where q.subscription = h.subscription and q.ordering_key = h.ordering_key and q.position = h.position
      and not h.event_ids <@ ids
  ),
  noted as (
    insert into __schema__.inbox (subscription, ordering_keys, positions, concurrency_keys)
    select l.subscription, array_agg(case when not l.stops then l.ordering_key end), array_agg(l.position),
      array_agg(l.concurrency_key)
    from left_over l
    where l.remaining = '{}' and l.state not in ('delayed', 'held', 'blocked')
      and num_nonnulls(case when not l.stops then l.ordering_key end, l.concurrency_key) > 0
    group by l.subscription
  )
  select h.run_id, h.subscription, h.event_id, h.is_leased, h.attempts, h.failures,
    (select l.ordering_key from left_over l where l.stops and l.id = h.run_id)
  from hit h
$$;

-- Removes whole runs and chunks that wait, and leaves notes for the lanes and gates that have room now. A blocked lane stays
-- blocked by its head, which is a dead letter: only the deliveries behind it go. The caller has locked the rows. Returns the
-- deliveries that were in them.
create function __schema__.remove_rows(run_ids bigint[], chunks __schema__.lane_queue[])
returns table (event_id bigint, subscription int, attempts int, failures int) language sql as $$
  with removed as materialized (
    select r.id, r.subscription, r.state, r.event_ids, r.ordering_key, r.position, r.concurrency_key, r.attempts, r.failures
    from __schema__.runs r
    where r.id = any(run_ids)
  ),
  gone as (
    delete from __schema__.runs r
    where r.id = any(array(select o.id from removed o where o.state <> 'blocked'))
  ),
  emptied as (
    update __schema__.runs r
    set event_ids = '{}', attempts = 0, failures = 0, expires_at = null
    where r.id = any(array(select o.id from removed o where o.state = 'blocked'))
  ),
  gone_chunks as (
    delete from __schema__.lane_queue q
    using unnest(chunks) as c
    where q.subscription = c.subscription and q.ordering_key = c.ordering_key and q.position = c.position
  ),
  noted as (
    insert into __schema__.inbox (subscription, ordering_keys, positions, concurrency_keys)
    select o.subscription, array_agg(o.ordering_key), array_agg(o.position), array_agg(o.concurrency_key)
    from removed o
    where num_nonnulls(o.ordering_key, o.concurrency_key) > 0 and o.state not in ('delayed', 'held', 'blocked')
    group by o.subscription
  )
  -- Only the first delivery of a run can have been attempted.
  select u.event_id, o.subscription, case when u.place = 1 then o.attempts else 0 end,
    case when u.place = 1 then o.failures else 0 end
  from removed o
  cross join lateral unnest(o.event_ids) with ordinality as u(event_id, place)
  union all
  select u.event_id, c.subscription, c.attempts, 0
  from unnest(chunks) as c
  cross join lateral unnest(c.event_ids) as u(event_id)
$$;

-- A finished delivery that is to wait again, with the keys that the options of its subscription give it today.
create type __schema__.again as (
  event_id bigint,
  subscription int,
  attempts int,
  ordering_key text,
  concurrency_key text,
  tags text[],
  max_retries smallint,
  blocked_run bigint       -- the run of the lane that stopped at this delivery; null: none did
);

-- Lets finished deliveries wait again:
--
--   its lane stopped at it ──▶ back to the head of that lane, which goes on. The run keeps the keys that it was made with,
--                              and passes the gate of its own concurrency key
--   without any key ─────────▶ runs: ready
--   otherwise ───────────────▶ inbox: to the end of its lane, or to its gate, in the order of events
create function __schema__.enter_again(deliveries __schema__.again[]) returns void language sql as $$
  with given as materialized (
    select * from unnest(deliveries)
  ),
  heads as (
    update __schema__.runs r
    set state = (case when r.concurrency_key is null then 'ready' else 'gated' end)::__schema__.run_state,
      event_ids = g.event_id || r.event_ids, first_id = g.event_id, attempts = g.attempts, failures = 0, blocked_by = null
    from given g
    where r.id = g.blocked_run
    returning r.subscription, r.concurrency_key
  ),
  free as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, tags, max_failures, attempts)
    select g.subscription, 'ready', array[g.event_id], g.event_id, g.tags,
      case when g.subscription = 0 then g.max_retries end, g.attempts
    from given g
    where g.ordering_key is null and g.concurrency_key is null and g.blocked_run is null
  ),
  queued as materialized (
    select g.*, (row_number() over (partition by g.subscription order by g.event_id) - 1) / 1000 as portion
    from given g
    where num_nonnulls(g.ordering_key, g.concurrency_key) > 0 and g.blocked_run is null
  ),
  arrivals as (
    insert into __schema__.inbox (subscription, event_ids, ordering_keys, concurrency_keys, tag_lists, max_failures, attempts,
      again_as)
    select q.subscription, array_agg(q.event_id order by q.event_id), array_agg(q.ordering_key order by q.event_id),
      array_agg(q.concurrency_key order by q.event_id), array_agg(array_to_string(q.tags, ',') order by q.event_id),
      array_agg(case when q.subscription = 0 then q.max_retries end order by q.event_id),
      array_agg(q.attempts order by q.event_id), (select nextval('__schema__.event_ids'))
    from queued q
    group by q.subscription, q.portion
    order by min(q.event_id)
  )
  insert into __schema__.inbox (subscription, concurrency_keys)
  select h.subscription, array_agg(h.concurrency_key)
  from heads h
  where h.concurrency_key is not null
  group by h.subscription
$$;

-- Lets blocked lanes go on without their buried heads. The caller has locked their runs.
create function __schema__.resume_lanes(run_ids bigint[]) returns void language sql as $$
  with blocked as materialized (
    select r.id, r.subscription, r.event_ids, r.ordering_key, r.position, r.concurrency_key
    from __schema__.runs r
    where r.id = any(run_ids)
  ),
  going_on as (
    update __schema__.runs r
    set state = (case when b.concurrency_key is null then 'ready' else 'gated' end)::__schema__.run_state,
      blocked_by = null, attempts = 0, failures = 0
    from blocked b
    where r.id = b.id and b.event_ids <> '{}'
  ),
  gone as (
    delete from __schema__.runs r using blocked b where r.id = b.id and b.event_ids = '{}'
  )
  insert into __schema__.inbox (subscription, ordering_keys, positions, concurrency_keys)
  select b.subscription, array[case when b.event_ids = '{}' then b.ordering_key end], array[b.position],
    array[b.concurrency_key]
  from blocked b
$$;
