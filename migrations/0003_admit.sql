-- Moves what waits at the door: due runs become ready, arrivals queue up in their lanes, free lanes send out
-- their next run, gates let through what they have room for. One at a time per schema, by an advisory lock
-- that nobody waits for, so lanes have a single writer.
--
-- Order: if X was committed before Y's publish began, X has the lower event id, and every snapshot that sees Y
-- sees X. So going through what has arrived by event id keeps what the contract promises, late commits included.
-- An xid would not: a transaction may have drawn its own long before it published.
-- For the same reason an admission that can't take all takes the lowest inbox ids, which are drawn as late.
--
-- Rows are taken by their ctid, in one list. Joined by key, the planner may go through all of them for each: it
-- was told by an analyze that these tables are empty, as they are most of the time.
--
-- `since` is the snapshot of the caller's last admit that left nothing behind: only transactions that it did
-- not see can have added rows. It spares us the dead index entries of a table that is emptied all day, also
-- while somebody holds a snapshot open. It is a hint: null looks at everything, and the delete is the truth.
create function __schema__.admit(
  since pg_snapshot,
  since_era uuid,          -- of the admit that `since` comes from
  events_max int,
  out busy boolean,        -- somebody else is at it
  out moved int,           -- how many rows were moved: 0 means nothing to do
  out drained boolean,     -- nothing is left behind as of `seen`
  out seen pg_snapshot,
  out era uuid
) language plpgsql as $$
declare
  rows_max constant int := 500;
  run_max constant int := 50;   -- what a lane's owner works off one by one, rewriting the run each time
  admission bigint;
  lane_subs int[];
  lane_keys text[];
  lane_afters bigint[];
  gate_subs int[];
  gate_keys text[];
  promoted int;
  popped int;
  fenced_subs int[];       -- queues that drain, and the last event of theirs that is let in
  fences bigint[];
begin
  busy := not pg_try_advisory_xact_lock(hashtextextended('__schema__', 7001));
  moved := 0;
  drained := false;
  if busy then return; end if;
  -- From here on every statement sees what the last admit did: it let go of the lock after its commit.
  select e.id into era from __schema__.era e;
  if era is null then
    era := gen_random_uuid();
    insert into __schema__.era (id) values (era);
  end if;
  if since_era is distinct from era or pg_snapshot_xmax(since) > pg_snapshot_xmax(pg_current_snapshot()) then
    since := null;   -- a crash may have put rows back that it saw gone; restored elsewhere, xids went back
  end if;

  select array_agg(s.no), array_agg(s.drain_fence) into fenced_subs, fences
  from __schema__.subscriptions s
  where s.drain_fence is not null and s.status <> 'deleted';

  -- Due: retries, snoozes and delays without a lane become ready; delays with a lane join the arrivals.
  with due as materialized (
    select id, state, concurrency_key
    from __schema__.runs
    where state in ('deferred', 'delayed') and due_at <= __schema__.clock()
    order by due_at
    limit rows_max
    for update skip locked
  ),
  woken as (
    update __schema__.runs r
    set state = (case when r.concurrency_key is null then 'ready' else 'gated' end)::__schema__.run_state, due_at = null
    where r.id = any(array(select d.id from due d where d.state = 'deferred'))
    returning r.subscription, r.concurrency_key
  ),
  joining as (
    delete from __schema__.runs r
    where r.id = any(array(select d.id from due d where d.state = 'delayed'))
    returning r.subscription, r.event_ids, r.ordering_key, r.concurrency_key, r.tags, r.expires_at, r.max_failures
  ),
  boxed as (
    insert into __schema__.inbox (subscription, event_ids, ordering_keys, concurrency_keys, again_as, tags, expires_at,
      max_failures)
    select j.subscription, j.event_ids, array_fill(j.ordering_key, array[cardinality(j.event_ids)]),
      case when j.concurrency_key is not null then array_fill(j.concurrency_key, array[cardinality(j.event_ids)]) end,
      (select nextval('__schema__.event_ids')), j.tags, j.expires_at, j.max_failures
    from joining j
  )
  select (select count(*) from due),
    (select array_agg(w.subscription) from woken w where w.concurrency_key is not null),
    (select array_agg(w.concurrency_key) from woken w where w.concurrency_key is not null)
  into promoted, gate_subs, gate_keys;

  -- Arrivals go to the ends of their lanes, in chunks of one kind; notes name the lanes and gates with room.
  admission := nextval('__schema__.admissions') << 20;
  with candidate as materialized (
    select c.ctid, c.id, c.size
    from (
      (select i.ctid, i.id, coalesce(cardinality(i.event_ids), 0) as size from __schema__.inbox i
       where since is null and (fenced_subs is null or not __schema__.is_beyond(i.subscription, i.event_ids, fenced_subs, fences))
       order by i.id limit rows_max)
      union all
      (select i.ctid, i.id, coalesce(cardinality(i.event_ids), 0) from __schema__.inbox i
       where since is not null and i.xid = any(array(select pg_snapshot_xip(since)))
         and (fenced_subs is null or not __schema__.is_beyond(i.subscription, i.event_ids, fenced_subs, fences))
       order by i.id limit rows_max)
      union all
      (select i.ctid, i.id, coalesce(cardinality(i.event_ids), 0) from __schema__.inbox i
       where since is not null and i.xid >= pg_snapshot_xmax(since)
         and (fenced_subs is null or not __schema__.is_beyond(i.subscription, i.event_ids, fenced_subs, fences))
       order by i.id limit rows_max)
    ) as c
    order by c.id
    limit rows_max
  ),
  bounded as materialized (
    select c.ctid, sum(c.size) over (order by c.id) - c.size as before from candidate c
  ),
  taken as materialized (
    delete from __schema__.inbox i
    where i.ctid = any(array(select b.ctid from bounded b where b.before < events_max))
    returning i.subscription, i.event_ids, i.ordering_keys, i.concurrency_keys, i.positions, i.again_as, i.tags,
      i.expires_at, i.max_failures, i.attempts
  ),
  arrival as materialized (
    select coalesce(t.again_as, u.event_id) as age, t.subscription, u.event_id, u.ordering_key, u.concurrency_key,
      t.tags, t.expires_at, t.max_failures, t.attempts, t.kind
    from (
      select t.*, case when num_nonnulls(t.tags, t.expires_at, t.max_failures) > 0 or t.attempts > 0
        then (t.tags, t.expires_at, t.max_failures, t.attempts)::text end as kind
      from taken t
      where t.event_ids is not null
    ) as t
    cross join lateral unnest(t.event_ids, t.ordering_keys, t.concurrency_keys) as u(event_id, ordering_key, concurrency_key)
  ),
  numbered as (
    select a.*,
      row_number() over (partition by a.subscription, a.ordering_key order by a.age, a.event_id) as place,
      row_number() over (partition by a.subscription, a.ordering_key, a.concurrency_key, a.kind
        order by a.age, a.event_id) as place_of_kind
    from arrival a
    where a.ordering_key is not null
  ),
  chunk as (
    select n.subscription, n.ordering_key, n.concurrency_key, min(n.tags) as tags, min(n.expires_at) as expires_at,
      min(n.max_failures) as max_failures, min(n.attempts) as attempts, min(n.place) as place,
      array_agg(n.event_id order by n.place) as event_ids
    from numbered n
    group by n.subscription, n.ordering_key, n.concurrency_key, n.kind, n.place - n.place_of_kind,
      case when n.concurrency_key is null and n.attempts = 0 then (n.place_of_kind - 1) / run_max else n.place end
  ),
  queued as (
    insert into __schema__.lane_queue (subscription, ordering_key, position, event_ids, concurrency_key, tags,
      expires_at, max_failures, attempts)
    select c.subscription, c.ordering_key, admission + c.place, c.event_ids, c.concurrency_key, c.tags,
      c.expires_at, c.max_failures, c.attempts
    from chunk c
    returning subscription, ordering_key
  ),
  gated as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, concurrency_key, tags, expires_at,
      max_failures, attempts)
    select a.subscription, 'gated', array[a.event_id], a.event_id, a.concurrency_key, a.tags, a.expires_at,
      a.max_failures, a.attempts
    from arrival a
    where a.ordering_key is null
    returning subscription, concurrency_key
  ),
  note as (
    select t.subscription, u.ordering_key, u.position, u.concurrency_key
    from taken t
    cross join lateral unnest(t.ordering_keys, t.positions, t.concurrency_keys) as u(ordering_key, position, concurrency_key)
    where t.event_ids is null
  ),
  lane as (
    select l.subscription, l.ordering_key, max(l.position) as after
    from (
      select q.subscription, q.ordering_key, 0 as position from queued q
      union all
      select n.subscription, n.ordering_key, coalesce(n.position, 0) from note n where n.ordering_key is not null
    ) as l
    group by l.subscription, l.ordering_key
  ),
  gate as (
    select g.subscription, g.concurrency_key from gated g
    union
    select n.subscription, n.concurrency_key from note n where n.concurrency_key is not null
  )
  select (select count(*) from taken),
    (select count(*) from taken) = (select count(*) from candidate) and (select count(*) from candidate) < rows_max
      and promoted < rows_max
      -- What is held at the door is looked at again, so that a resume finds it.
      and not (fenced_subs is not null and exists (
        select 1 from __schema__.inbox i
        where __schema__.is_beyond(i.subscription, i.event_ids, fenced_subs, fences))),
    pg_current_snapshot(),
    (select array_agg(l.subscription) from lane l), (select array_agg(l.ordering_key) from lane l),
    (select array_agg(l.after) from lane l),
    gate_subs || (select array_agg(g.subscription) from gate g),
    gate_keys || (select array_agg(g.concurrency_key) from gate g)
  into moved, drained, seen, lane_subs, lane_keys, lane_afters, gate_subs, gate_keys;

  -- Lanes that have no run out send their next one: as many chunks of one kind as fit a run.
  if lane_subs is not null then
    with free as materialized (
      select l.subscription, l.ordering_key, l.after
      from unnest(lane_subs, lane_keys, lane_afters) as l(subscription, ordering_key, after)
      where not exists (
        select 1 from __schema__.runs r
        where r.subscription = l.subscription and r.ordering_key = l.ordering_key and r.state <> 'delayed')
    ),
    -- As many chunks as fit a run, up to the first of another kind.
    fitting as materialized (
      select n.ctid
      from free f
      cross join lateral (
        select k.*, bool_or(k.kind <> k.first_kind) over (order by k.position) as another_kind
        from (
          select w.*,
            row_number() over by_position as rank,
            sum(cardinality(w.event_ids)) over by_position as size_to_here,
            first_value(w.kind) over by_position as first_kind
          from (
            select q.ctid, q.position, q.event_ids, q.concurrency_key, q.attempts,
              (q.concurrency_key, q.tags, q.expires_at, q.max_failures, q.attempts)::text as kind
            from __schema__.lane_queue q
            where q.subscription = f.subscription and q.ordering_key = f.ordering_key and q.position > f.after
            order by q.position
            limit 20
          ) as w
          window by_position as (order by w.position)
        ) as k
      ) as n
      where n.rank = 1
        or (n.size_to_here <= run_max and not n.another_kind and n.concurrency_key is null and n.attempts = 0)
    ),
    -- What goes out is what was deleted: a cancel may have been faster.
    next as (
      delete from __schema__.lane_queue q
      where q.ctid = any(array(select f.ctid from fitting f))
      returning q.*
    ),
    sent as (
      insert into __schema__.runs (subscription, state, event_ids, first_id, ordering_key, position,
        concurrency_key, tags, expires_at, max_failures, attempts)
      select g.subscription,
        (case when g.concurrency_key is null then 'ready' else 'gated' end)::__schema__.run_state,
        g.event_ids, g.event_ids[1], g.ordering_key, g.position, g.concurrency_key, g.tags, g.expires_at,
        g.max_failures, g.attempts
      from (
        select n.subscription, n.ordering_key, max(n.position) as position,
          array_agg(u.event_id order by n.position, u.place) as event_ids,
          min(n.concurrency_key) as concurrency_key, n.tags, n.expires_at, n.max_failures, n.attempts
        from next n
        cross join lateral unnest(n.event_ids) with ordinality as u(event_id, place)
        group by n.subscription, n.ordering_key, n.tags, n.expires_at, n.max_failures, n.attempts
      ) as g
      returning subscription, concurrency_key
    )
    select count(*),
      gate_subs || array_agg(s.subscription) filter (where s.concurrency_key is not null),
      gate_keys || array_agg(s.concurrency_key) filter (where s.concurrency_key is not null)
    into popped, gate_subs, gate_keys
    from sent s;
    moved := moved + popped;
  end if;

  -- Gates let through the oldest that wait, up to the limit of their subscription.
  if gate_subs is not null then
    with gate as materialized (
      select g.subscription, g.concurrency_key,
        coalesce(s.key_concurrency, 1000000) - (
          select count(*) from __schema__.runs r
          where r.subscription = g.subscription and r.concurrency_key = g.concurrency_key
            and r.state in ('ready', 'leased')) as room
      from (select distinct subscription, concurrency_key from unnest(gate_subs, gate_keys) as u(subscription, concurrency_key)) as g
      join __schema__.subscriptions s on s.no = g.subscription
    ),
    passing as materialized (
      select p.id
      from gate g
      cross join lateral (
        select r.id from __schema__.runs r
        where r.subscription = g.subscription and r.concurrency_key = g.concurrency_key and r.state = 'gated'
        order by r.first_id
        limit greatest(g.room, 0)
      ) as p
    )
    update __schema__.runs r set state = 'ready' from passing p where r.id = p.id and r.state = 'gated';
  end if;
  moved := moved + promoted;
end $$;

-- Whether an arrival is one that its queue, which drains, does not let in.
create function __schema__.is_beyond(subscription int, event_ids bigint[], fenced_subs int[], fences bigint[]) returns boolean
  language sql immutable as $$
  select coalesce(event_ids[1] > fences[array_position(fenced_subs, subscription)], false)
$$;
