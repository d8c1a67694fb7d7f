-- Admission: moves deliveries through lanes and gates, in one short transaction at a time.

-- Queues that have held runs. Only admit writes it, so an admission need not search for them.
create table __schema__.holding_queues (
  subscription int primary key
);

-- Whether a queue holds a run that may enter its lane now: once the queue is resumed, any run; while it drains, a run from
-- before the drain. Reads only the oldest held run, so 100,000 others cost nothing.
create function __schema__.has_enterable(queue int, fence bigint) returns boolean language sql stable as $$
  select coalesce((
    select min(r.first_id) <= coalesce(fence, 9223372036854775807)
    from __schema__.runs r
    where r.subscription = queue and r.state = 'held'), false)
$$;

-- A run with a concurrency key passes the gate of that key, even if key_concurrency was removed since the run was made. So a
-- change of key_concurrency leaves a note for every gate at which runs wait: there may be room now. The trigger waits for an
-- admission under way: that one still uses the old limit, and the runs it sends to a gate are not visible before it ends.
create function __schema__.note_gates() returns trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('__schema__', 7001));
  insert into __schema__.inbox (subscription, concurrency_keys)
  select new.no, array_agg(g.concurrency_key)
  from (
    select r.concurrency_key, row_number() over () as place
    from __schema__.runs r
    where r.subscription = new.no and r.state = 'gated'
    group by r.concurrency_key
  ) as g
  group by g.place / 1000;
  return null;
end $$;
create trigger subscriptions_gates after update of key_concurrency on __schema__.subscriptions
  for each row when (old.key_concurrency is distinct from new.key_concurrency)
  execute function __schema__.note_gates();

-- Moves what can move:
--
--   runs: deferred ──due──▶ ready or gated
--         delayed ──due──▶ inbox
--   inbox: arrivals ──▶ lane_queue (the end of their lane), or gated runs (no lane), or held runs (the queue drains)
--          notes ──▶ these lanes and gates may have room
--   runs: held ──queue resumed──▶ lane_queue, before everything that arrived later
--   lane_queue ──lane has no run──▶ runs: ready or gated
--   runs: gated ──gate has room──▶ ready
--
-- An advisory lock makes admit the single writer of lanes. Admit waits for nobody: if another session has the lock it does
-- nothing. If another session has locked a row, admit skips that row and puts the note of its lane or gate back. So a note
-- is gone only when the next run of its lane is out, or when nothing was left to send. Three others wait for the lock:
-- a drain and a change of key_concurrency, which an admission must see as a whole, and the move of a memory queue into the
-- database, which holds the lock while it writes the runs of 1,000 events, or of one lane that is longer.
--
-- Order: if X was committed before the publish of Y began, then X has the lower event id and the lower inbox id, and every
-- snapshot that sees Y sees X. So admit takes the lowest visible inbox ids and queues them by event id, and late commits
-- cannot break the order. The xid would not do: a transaction may have drawn its xid long before it published.
--
-- Rows are deleted by their ctid, in one list. With a join by key the planner may scan the whole table for each row: an
-- analyze has told it that these tables are empty, as they are most of the time.
--
-- `since_id`, `since_xid` and `pending` are what the caller's last admit returned: all rows below `since_id` are gone,
-- except for rows of the transactions in `pending`, which had not ended. So admit looks only at ids from `since_id` on, and
-- at rows of pending transactions that have ended since. Dead index entries of a table that is emptied all day, and rows
-- that are not committed yet, cost nothing. The three are only a hint: with null admit looks at everything.
create function __schema__.admit(
  since_id bigint,
  since_xid xid8,
  pending xid8[],
  since_era uuid,          -- of the admit that returned the three above
  events_max int,
  out busy boolean,        -- another session is admitting, or has locked all that could move
  out moved int,           -- arrivals and runs that were moved; 0: nothing to do
  out drained boolean,     -- nothing visible is left to move
  out seen_id bigint,      -- since_id, since_xid and pending for the next admit of this caller
  out seen_xid xid8,
  out seen_pending xid8[],
  out era uuid
) language plpgsql as $$
declare
  rows_max constant int := 500;
  run_max constant int := 50;   -- deliveries: a lane is settled one by one, and each settlement rewrites the run
  admission bigint;
  drawn_id bigint;
  seen pg_snapshot;
  is_cut boolean;
  lane_subs int[];
  lane_keys text[];
  lane_afters bigint[];
  gate_subs int[];
  gate_keys text[];
  promoted int;
  popped int;
  put_back int := 0;
  held_subs int[];         -- queues that hold arrivals above these event ids
  held_froms bigint[];
  fences bigint[];
  resumed bigint[];        -- ids of held runs that may enter their lanes
begin
  busy := not pg_try_advisory_xact_lock(hashtextextended('__schema__', 7001));
  moved := 0;
  drained := false;
  if busy then return; end if;
  -- Our xid is drawn after this look at the sequence, so every transaction with an inbox id up to here has a lower xid.
  drawn_id := coalesce(pg_sequence_last_value('__schema__.inbox_id_seq'), 0);
  seen_xid := pg_current_xact_id();
  -- Every later statement sees the last admission: it released the lock after its commit.
  select e.id into era from __schema__.era e;
  if era is null then
    era := gen_random_uuid();
    insert into __schema__.era (id) values (era);
  end if;
  if since_id is null or since_era is distinct from era or since_xid > seen_xid then
    since_id := 0;   -- a crash may have brought deleted rows back; a restored database may have lower xids
  end if;

  select h.subs, h.froms, h.fences, h.resumed into held_subs, held_froms, fences, resumed
  from __schema__.held_arrivals(rows_max) as h;

  -- Step 1. Due runs: retries, snoozes and delays without a lane become ready; delays with a lane join the arrivals.
  with candidate as materialized (
    select id, state, subscription, ordering_key, due_at, first_id
    from __schema__.runs
    where state in ('deferred', 'delayed') and due_at <= __schema__.clock()
    order by due_at, first_id
    limit rows_max
  ),
  locked as materialized (
    select r.id
    from __schema__.runs r
    where r.id = any(array(select c.id from candidate c)) and r.state in ('deferred', 'delayed')
      and r.due_at <= __schema__.clock()
    for update skip locked
  ),
  missed as materialized (
    select c.* from candidate c where c.id not in (select l.id from locked l)
  ),
  -- A run must not enter its lane before an earlier one of that lane that another session has locked.
  due as materialized (
    select c.id, c.state
    from candidate c
    where c.id in (select l.id from locked l) and not (c.state = 'delayed' and exists (
      select 1 from missed m
      where m.state = 'delayed' and m.subscription = c.subscription and m.ordering_key = c.ordering_key
        and (m.due_at, m.first_id) < (c.due_at, c.first_id)))
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
    returning r.subscription, r.event_ids, r.ordering_key, r.concurrency_key, r.tags, r.expires_at, r.max_failures, r.due_at,
      r.first_id, cardinality(r.event_ids) as size
  ),
  boxed as (
    insert into __schema__.inbox (subscription, event_ids, ordering_keys, concurrency_keys, tag_lists, expires_ats,
      max_failures, again_as)
    select j.subscription, j.event_ids, array_fill(j.ordering_key, array[j.size]),
      case when j.concurrency_key is not null then array_fill(j.concurrency_key, array[j.size]) end,
      case when j.tags is not null then array_fill(array_to_string(j.tags, ','), array[j.size]) end,
      case when j.expires_at is not null then array_fill(j.expires_at, array[j.size]) end,
      case when j.max_failures is not null then array_fill(j.max_failures, array[j.size]) end,
      (select nextval('__schema__.event_ids'))
    from joining j
    order by j.due_at, j.first_id
  )
  select (select count(*) from due),
    (select array_agg(w.subscription) from woken w where w.concurrency_key is not null),
    (select array_agg(w.concurrency_key) from woken w where w.concurrency_key is not null)
  into promoted, gate_subs, gate_keys;

  -- Step 2. The inbox: arrivals go to the ends of their lanes, in chunks of one kind; notes name lanes and gates with room.
  admission := nextval('__schema__.admissions') << 20;
  with ended as materialized (
    select array_agg(x.xid) as xids
    from unnest(pending) as x(xid)
    where since_id > 0 and pg_visible_in_snapshot(x.xid, pg_current_snapshot())
  ),
  candidate as materialized (
    select c.ctid, c.id, c.size
    from (
      (select i.ctid, i.id, coalesce(cardinality(i.event_ids), cardinality(i.ordering_keys), 1) as size
       from __schema__.inbox i
       where i.xid = any((select e.xids from ended e)::xid8[]) and i.id < since_id
       order by i.id limit rows_max)
      union all
      (select i.ctid, i.id, coalesce(cardinality(i.event_ids), cardinality(i.ordering_keys), 1)
       from __schema__.inbox i
       where i.id >= since_id
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
    returning i.id, i.subscription, i.event_ids, i.ordering_keys, i.concurrency_keys, i.tag_lists, i.expires_ats,
      i.max_failures, i.attempts, i.positions, i.again_as
  ),
  released as materialized (
    delete from __schema__.runs r
    where r.id = any(resumed)
    returning r.id, r.subscription, r.event_ids, r.ordering_key, r.concurrency_key, array_to_string(r.tags, ',') as tag_list,
      r.expires_at, r.max_failures, r.attempts
  ),
  arrival as materialized (
    select a.*, a.tags is not null or a.expires_at is not null or a.max_failures is not null or a.attempts > 0 as is_special,
      coalesce(a.wave = 1 and a.event_id > held_froms[array_position(held_subs, a.subscription)], false) as is_held,
      coalesce(a.wave = 1 and a.event_id > fences[array_position(held_subs, a.subscription)], false) as is_beyond
    from (
      select 0 as wave, r.id as age, r.id as row_id, r.subscription, u.event_id, u.place, r.ordering_key, r.concurrency_key,
        r.tag_list as tags, r.expires_at, r.max_failures, r.attempts
      from released r
      cross join lateral unnest(r.event_ids) with ordinality as u(event_id, place)
      union all
      select 1, coalesce(t.again_as, u.event_id), t.id, t.subscription, u.event_id, u.place, u.ordering_key,
        u.concurrency_key, u.tag_list, u.expires_at, u.max_failures, coalesce(u.attempts, 0)
      from taken t
      cross join lateral unnest(t.event_ids, t.ordering_keys, t.concurrency_keys, t.tag_lists, t.expires_ats, t.max_failures,
          t.attempts)
        with ordinality as u(event_id, ordering_key, concurrency_key, tag_list, expires_at, max_failures, attempts, place)
      where t.event_ids is not null
    ) as a
  ),
  numbered as (
    select a.*,
      row_number() over (partition by a.subscription, a.ordering_key, a.is_held
        order by a.wave, a.age, a.row_id, a.place) as turn,
      row_number() over (partition by a.subscription, a.ordering_key, a.is_held, a.concurrency_key, a.kind
        order by a.wave, a.age, a.row_id, a.place) as turn_of_kind
    from (
      select a.*, case when a.is_special or a.is_beyond
        then (a.tags, a.expires_at, a.max_failures, a.attempts, a.is_beyond)::text end as kind
      from arrival a
      where a.ordering_key is not null or a.is_held
    ) as a
  ),
  chunk as materialized (
    select n.subscription, n.ordering_key, n.is_held, n.concurrency_key, string_to_array(min(n.tags), ',') as tags,
      min(n.expires_at) as expires_at, min(n.max_failures) as max_failures, min(n.attempts) as attempts, min(n.turn) as turn,
      array_agg(n.event_id order by n.turn) as event_ids
    from numbered n
    group by n.subscription, n.ordering_key, n.is_held, n.concurrency_key, n.kind, n.turn - n.turn_of_kind,
      case when n.concurrency_key is null and n.attempts = 0 then (n.turn_of_kind - 1) / run_max else n.turn end
  ),
  queued as (
    insert into __schema__.lane_queue (subscription, ordering_key, position, event_ids, concurrency_key, tags,
      expires_at, max_failures, attempts)
    select c.subscription, c.ordering_key, admission + c.turn, c.event_ids, c.concurrency_key, c.tags,
      c.expires_at, c.max_failures, c.attempts
    from chunk c
    where not c.is_held
    returning subscription, ordering_key
  ),
  held as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, ordering_key, concurrency_key, tags, expires_at,
      max_failures, attempts)
    select c.subscription, 'held', c.event_ids, c.event_ids[1], c.ordering_key, c.concurrency_key, c.tags, c.expires_at,
      c.max_failures, c.attempts
    from chunk c
    where c.is_held
    order by c.subscription, c.turn
    returning subscription
  ),
  holding as (
    insert into __schema__.holding_queues (subscription)
    select distinct h.subscription from held h
    on conflict do nothing
  ),
  gated as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, concurrency_key, tags, expires_at,
      max_failures, attempts)
    select a.subscription, 'gated', array[a.event_id], a.event_id, a.concurrency_key, string_to_array(a.tags, ','),
      a.expires_at, a.max_failures, a.attempts
    from arrival a
    where a.ordering_key is null and not a.is_held
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
  select (select count(*) from taken t where t.event_ids is not null) + (select count(*) from released),
    (select count(*) from taken) < (select count(*) from candidate) or (select count(*) from candidate) = rows_max,
    coalesce((select max(t.id) + 1 from taken t), since_id), pg_current_snapshot(),
    (select array_agg(l.subscription) from lane l), (select array_agg(l.ordering_key) from lane l),
    (select array_agg(l.after) from lane l),
    gate_subs || (select array_agg(g.subscription) from gate g),
    gate_keys || (select array_agg(g.concurrency_key) from gate g)
  into moved, is_cut, seen_id, seen, lane_subs, lane_keys, lane_afters, gate_subs, gate_keys;
  seen_id := case when is_cut then least(seen_id, drawn_id + 1) else drawn_id + 1 end;
  seen_pending := __schema__.not_ended(seen, seen_xid);
  if seen_pending is null then seen_id := null; end if;   -- too many pending: the next admit looks at everything
  drained := not is_cut and promoted < rows_max and coalesce(cardinality(resumed), 0) < rows_max;

  -- Step 3. Lanes that have no run send their next one.
  if lane_subs is not null then
    with free as materialized (
      select l.subscription, l.ordering_key, l.after
      from unnest(lane_subs, lane_keys, lane_afters) as l(subscription, ordering_key, after)
      where not exists (
        select 1 from __schema__.runs r
        where r.subscription = l.subscription and r.ordering_key = l.ordering_key and r.state not in ('delayed', 'held'))
    ),
    -- As many chunks as fit into a run, up to the first of another kind.
    fitting as materialized (
      select f.subscription, f.ordering_key, f.after, n.ctid
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
    locked as materialized (
      select q.ctid
      from __schema__.lane_queue q
      where q.ctid = any(array(select f.ctid from fitting f))
      for update skip locked
    ),
    -- Another session is removing deliveries from these lanes: which one is next is known when it is done.
    contended as materialized (
      select distinct f.subscription, f.ordering_key, f.after
      from fitting f
      where f.ctid not in (select l.ctid from locked l)
    ),
    noted as (
      insert into __schema__.inbox (subscription, ordering_keys, positions)
      select c.subscription, array_agg(c.ordering_key), array_agg(c.after)
      from contended c
      group by c.subscription
    ),
    next as (
      delete from __schema__.lane_queue q
      where q.ctid = any(array(
        select f.ctid from fitting f
        where (f.subscription, f.ordering_key) not in (select c.subscription, c.ordering_key from contended c)))
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
    select (select count(*) from sent), (select count(*) from contended),
      gate_subs || (select array_agg(s.subscription) from sent s where s.concurrency_key is not null),
      gate_keys || (select array_agg(s.concurrency_key) from sent s where s.concurrency_key is not null)
    into popped, put_back, gate_subs, gate_keys;
    moved := moved + popped;
  end if;

  -- Step 4. Gates let the oldest waiting runs through, up to key_concurrency.
  if gate_subs is not null then
    with gate as materialized (
      select g.subscription, g.concurrency_key,
        greatest(coalesce(s.key_concurrency, 1000000) - (
          select count(*) from __schema__.runs r
          where r.subscription = g.subscription and r.concurrency_key = g.concurrency_key
            and r.state in ('ready', 'leased')), 0) as room
      from (
        select distinct subscription, concurrency_key
        from unnest(gate_subs, gate_keys) as u(subscription, concurrency_key)
      ) as g
      join __schema__.subscriptions s on s.no = g.subscription
    ),
    waiting as materialized (
      select g.subscription, g.concurrency_key, p.id
      from gate g
      cross join lateral (
        select r.id from __schema__.runs r
        where r.subscription = g.subscription and r.concurrency_key = g.concurrency_key and r.state = 'gated'
        order by r.first_id
        limit g.room
      ) as p
    ),
    passing as materialized (
      select r.id
      from __schema__.runs r
      where r.id = any(array(select w.id from waiting w)) and r.state = 'gated'
      for update skip locked
    ),
    noted as (
      insert into __schema__.inbox (subscription, concurrency_keys)
      select w.subscription, array_agg(distinct w.concurrency_key)
      from waiting w
      where w.id not in (select p.id from passing p)
      group by w.subscription
      returning cardinality(concurrency_keys) as gates
    ),
    passed as (
      update __schema__.runs r set state = 'ready' where r.id = any(array(select p.id from passing p))
      returning 1
    )
    select put_back + coalesce((select sum(n.gates) from noted n), 0), moved + (select count(*) from passed)
    into put_back, moved;
  end if;
  moved := moved + promoted;
  if put_back > 0 then drained := false; end if;
  if put_back > 0 and moved = 0 then busy := true; end if;
end $$;

-- The transactions below `before` that a snapshot does not see: those that it lists as running, and those from its xmax on.
-- Null: more than 10,000.
create function __schema__.not_ended(seen pg_snapshot, before xid8) returns xid8[] language sql immutable as $$
  select case when b.upper - b.lower <= 10000 then array(
    select x.xid from pg_snapshot_xip(seen) as x(xid) where x.xid < before
    union all
    select n.number::text::xid8 from generate_series(b.lower, b.upper) as n(number)) end
  from (select pg_snapshot_xmax(seen)::text::bigint as lower, before::text::bigint - 1 as upper) as b
$$;

-- Which queues hold arrivals back, and which held runs may enter their lanes now. Held runs of a resumed queue enter before
-- newer arrivals, so these are held as well until the last held run has entered. Most of the time there are no held runs.
create function __schema__.held_arrivals(
  rows_max int,
  out subs int[],
  out froms bigint[],      -- arrivals with a higher event id are held
  out fences bigint[],     -- held runs up to this event id may enter their lanes; null: all of them may
  out resumed bigint[]     -- ids of held runs that may enter their lanes now
) language plpgsql as $$
declare
  locked bigint[];
begin
  resumed := array(
    select r.id
    from __schema__.holding_queues h
    join __schema__.subscriptions s on s.no = h.subscription
    cross join lateral (select case when s.status <> 'deleted' then s.drain_fence end as fence) as f
    cross join lateral (
      select r.id from __schema__.runs r
      where r.subscription = h.subscription and r.state = 'held' and (f.fence is null or r.first_id <= f.fence)
      order by r.id
      limit rows_max
    ) as r
    where __schema__.has_enterable(h.subscription, f.fence)
    order by r.id
    limit rows_max
  );
  locked := array(
    select r.id from __schema__.runs r where r.id = any(resumed) and r.state = 'held' order by r.id for update skip locked);
  -- A run must not enter before an earlier one that another session has locked.
  resumed := array(
    select l.id from unnest(locked) as l(id)
    where l.id < all(array(select u.id from unnest(resumed) as u(id) where u.id <> all(locked)))
    order by l.id);

  select array_agg(b.no), array_agg(b.held_from), array_agg(b.fence) into subs, froms, fences
  from (
    select s.no, case when l.is_left then 0 else f.fence end as held_from, f.fence
    from __schema__.subscriptions s
    cross join lateral (select case when s.status <> 'deleted' then s.drain_fence end as fence) as f
    cross join lateral (
      select case when __schema__.has_enterable(s.no, f.fence) then exists (
        select 1 from __schema__.runs r
        where r.subscription = s.no and r.state = 'held' and r.id <> all(resumed)
          and (f.fence is null or r.first_id <= f.fence)) else false end as is_left
    ) as l
    where s.no = any(array(
        select b.no from __schema__.subscriptions b where b.drain_fence is not null and b.status <> 'deleted'
        union
        select h.subscription from __schema__.holding_queues h))
      and (l.is_left or f.fence is not null)
  ) as b;

  delete from __schema__.holding_queues h where not __schema__.has_enterable(h.subscription, null);
end $$;
