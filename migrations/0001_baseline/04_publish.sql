-- Publishing: one SQL function for the library, for triggers and for every other language. It routes within the publisher's
-- own transaction and only inserts rows, so it waits for nobody, except for a transaction with the same idempotency key.

-- Why an event is refused; null: it is not. The answer is a reason and the name of a queue:
--   full       it is owed to a queue that is full and refuses
--   memory     all queues that it is owed to live in the memory of another process
--   draining   all queues that it is owed to are draining
create function __schema__.refusal(owed int[], full_nos int[], draining_nos int[], memory_nos int[]) returns text
  language sql stable as $$
  select b.why || ':' || s.name
  from (
    select case
      when owed && full_nos then 'full'
      when owed = '{}' then null
      when owed <@ memory_nos then 'memory'
      when owed <@ draining_nos then 'draining'
    end as why
  ) as b
  join __schema__.subscriptions s on s.no = any(owed) and s.no = any(
    case b.why when 'full' then full_nos when 'memory' then memory_nos else draining_nos end)
  where b.why is not null
  order by s.no
  limit 1
$$;

-- The names of those queues among `owed` that are past their high watermark.
create function __schema__.pressed(owed int[], pressed_nos int[]) returns text language sql stable as $$
  select string_agg(s.name, ',' order by s.no)
  from __schema__.subscriptions s
  where s.no = any(owed) and s.no = any(pressed_nos)
$$;

-- The short way, for most calls: events of one type, without delay, expiry or limit of their own, which either all have an
-- ordering key or none has. Deliveries without a key become ready runs. If a runner in the publishing process is waiting for
-- work, its run is leased to it here: its handler starts after one commit instead of two.
create function __schema__.publish_alike(
  ids bigint[],
  type text,
  tag_list text,
  owed int[],
  moment timestamptz,
  payloads text[],
  titles text[],
  descriptions text[],
  ordering_keys text[],
  versions text[],
  sources text[],
  timestamps timestamptz[],
  correlation_ids text[],
  causation_ids text[],
  traceparents text[],
  attribute_lists text[],
  idle int[],
  idle_lease_ms int[],
  token bigint,
  worker int,
  out handed text        -- 'subscription:run' of each run that was leased here
) language plpgsql
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  tag_array text[] := string_to_array(tag_list, ',');
begin
  insert into __schema__.events (id, type, title, description, tags, payload, ordering_key, version, source,
    "timestamp", correlation_id, causation_id, traceparent, attributes, owed, created_at)
  select u.id, publish_alike.type, u.title, u.description, tag_array, u.payload, u.ordering_key, u.version,
    u.source::json, u.at, u.correlation_id, u.causation_id, u.traceparent,
    u.attributes::json, publish_alike.owed, moment
  from unnest(ids, payloads, titles, descriptions, ordering_keys, versions, sources, timestamps, correlation_ids,
      causation_ids, traceparents, attribute_lists)
    as u(id, payload, title, description, ordering_key, version, source, at, correlation_id, causation_id, traceparent,
      attributes);

  if ordering_keys is not null then
    insert into __schema__.inbox (subscription, event_ids, ordering_keys, tag_lists)
    select s.no, c.ids, publish_alike.ordering_keys[f.first:f.first + 999],
      case when s.via = 'pull' and tag_array is not null
        then array_fill(array_to_string(tag_array, ','), array[cardinality(c.ids)]) end
    from __schema__.subscriptions s
    cross join generate_series(1, cardinality(publish_alike.ids), 1000) as f(first)
    cross join lateral (select publish_alike.ids[f.first:f.first + 999]) as c(ids)
    where s.no = any(owed)
    order by f.first;
    return;
  end if;

  with sent as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, tags, token, worker, granted, leased_at,
      leased_until, lease_ms)
    select s.no, (case when h.no is not null then 'leased' else 'ready' end)::__schema__.run_state, c.ids, c.ids[1],
      case when s.via = 'pull' then tag_array end,
      case when h.no is not null then publish_alike.token end, case when h.no is not null then publish_alike.worker end,
      case when h.no is not null then cardinality(c.ids) end, case when h.no is not null then moment end,
      moment + h.lease_ms * interval '1 ms', h.lease_ms
    from __schema__.subscriptions s
    left join unnest(idle, idle_lease_ms) as h(no, lease_ms) on h.no = s.no
      and cardinality(publish_alike.ids) <= 200   -- they fit one run
      and s.status = 'active' and not __schema__.is_limited(s.max_concurrency, s.rate_per_second, s.ramp)
      -- a process that has this queue in its memory must handle its older events first
      and not exists (select from __schema__.memory_queues m where m.subscription = s.no)
    cross join generate_series(1, cardinality(publish_alike.ids), 200) as f(first)
    cross join lateral (select publish_alike.ids[f.first:f.first + 199]) as c(ids)
    where s.no = any(owed)
    returning id, subscription, state
  )
  select string_agg(s.subscription || ':' || s.id, ',') into handed from sent s where s.state = 'leased';
end $$;

-- Publishes many events at once.
--
--   events of the call
--     │ draw_event_ids            ids in the order of the call
--     │ queue_pressure, drains    which queues refuse
--     ├─ all alike? ─▶ route ─▶ refused? ─▶ publish_alike ─────────────────────────────▶ answer     most calls
--     │
--     │ idempotency_keys          known ──▶ not stored, answered with the first event
--     ▼
--   item ─▶ kind ─▶ inspected ─▶ judged ─▶ routed ─▶ stored           events
--    one     route   inspect        owed,     not         └▶ delivery  one per event and subscription
--    row     once    events one     refused,  refused           ├▶ sent            runs: ready, deferred or delayed
--    per     per     by one, if     expiry                      └▶ lane_arrivals   inbox: has a key and is due now
--    event   type    needed
--     │
--     └▶ nobody wanted it, and somebody had to ─▶ dead_letters
--
-- The arguments up to attribute_lists are arrays with one element per event, or null where no event has that field: an array of
-- a composite type would take 15 % longer (decision 0018). The library has checked the values. The answer has one row per event. A row with `conflict` was not stored: its
-- idempotency key belongs to another event, whose id is returned. A row with `refused` was not stored and left no trace.
create function __schema__.publish_many(
  payloads text[],
  types text[],
  titles text[] default null,
  descriptions text[] default null,
  tag_lists text[] default null,
  ordering_keys text[] default null,
  concurrency_keys text[] default null,
  versions text[] default null,
  sources text[] default null,
  timestamps timestamptz[] default null,
  correlation_ids text[] default null,
  causation_ids text[] default null,
  traceparents text[] default null,
  run_ats timestamptz[] default null,
  expires_ats timestamptz[] default null,
  max_retries_list smallint[] default null,
  idempotency_keys text[] default null,
  fingerprints bytea[] default null,
  require_routes boolean[] default null,
  scopes text[] default null,   -- of the idempotency keys: keys of different scopes never meet
  attribute_lists text[] default null,
  wake text default '',     -- the notification to other processes at commit; null: none, they will poll
  idle int[] default null,  -- subscriptions whose runner in this process waits for work: see publish_alike
  idle_lease_ms int[] default null,
  token bigint default null,
  worker int default null,
  together boolean default false,  -- if one event is refused, none is stored
  memory_here int[] default null   -- queues in the memory of the publishing process: these do not refuse
) returns table (
  place int, id bigint, replayed boolean, conflict boolean, owed text, created_at timestamptz, handed text,
  ends_at timestamptz,   -- when it expires, if its type and not the event says so
  refused text,
  pressed text           -- names of queues it is owed to that are past their high watermark
)
language plpgsql
-- The planner expects ten elements in every array, so nested loops would be slow; and compiling (jit) or planning again for
-- each call takes longer than the statement runs.
set enable_nestloop = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  moment timestamptz := __schema__.clock();
  given_ids bigint[];      -- by place in the call: lanes follow this order
  new_ids bigint[];        -- those whose idempotency key is new
  given_scopes text[] := coalesce(array_replace(scopes, null, ''), '{""}');
  known_places int[];      -- places whose idempotency key was used before: not stored again
  places int[];
  ids bigint[];
  owed_lists text[];
  unrouted_ids bigint[];
  ends timestamptz[];
  owed_alike int[];
  inspects_alike boolean;
  handed_over text;
  full_nos int[];          -- numbers of queues that are full and refuse
  pressed_nos int[];       -- numbers of queues past their high watermark
  draining_nos int[];
  memory_nos int[];
  refusals text[];         -- in the order of places
  pressed_lists text[];
  is_refusing boolean;
begin
  -- The transaction draws its xid before its event ids: a drain relies on that order when it waits for open transactions.
  perform pg_current_xact_id();
  given_ids := __schema__.draw_event_ids(cardinality(payloads), moment);

  -- Nearly always empty, and found by small indexes.
  select array_agg(b.no) filter (where b.bar = 'full'), array_agg(b.no) filter (where b.bar in ('full', 'high')),
    array_agg(b.no) filter (where b.bar = 'draining'), array_agg(b.no) filter (where b.bar = 'memory')
  into full_nos, pressed_nos, draining_nos, memory_nos
  from (
    select q.subscription as no, case when q.is_refusing then 'full' else 'high' end as bar
    from __schema__.queue_pressure q
    where q.level <> 'none'
      and q.measured_at between moment - interval '5 s' and moment + interval '5 s'   -- an old measurement says nothing
    union all
    select s.no, k.bar
    from __schema__.subscriptions s
    cross join lateral (
      select 'draining' as bar where s.drain_fence is not null
      union all
      select 'memory' where s.storage = 'memory' and s.no <> all(coalesce(memory_here, '{}'))
    ) as k
    where (s.drain_fence is not null or s.storage = 'memory') and s.status <> 'deleted'
  ) as b;
  is_refusing := num_nonnulls(full_nos, draining_nos, memory_nos) > 0;

  if num_nonnulls(concurrency_keys, run_ats, expires_ats, max_retries_list, idempotency_keys, require_routes) = 0
    and coalesce(types[1] = all(types), types is null)
    and coalesce(tag_lists[1] = all(tag_lists), tag_lists is null)
    and array_position(ordering_keys, null) is null
    and not exists (select 1 from __schema__.event_types t where t.type = types[1])
  then
    select r.owed, r.inspects into owed_alike, inspects_alike
    from __schema__.route(types[1], string_to_array(tag_lists[1], ',')) as r;
  end if;
  if not inspects_alike and is_refusing then
    refused := __schema__.refusal(owed_alike, full_nos, draining_nos, memory_nos);
    if refused is not null then
      return query
        select u.place::int, u.id, false, false, ''::text, moment, null::text, null::timestamptz, publish_many.refused,
          null::text
        from unnest(given_ids) with ordinality as u(id, place);
      return;
    end if;
  end if;
  if not inspects_alike then
    handed_over := __schema__.publish_alike(given_ids, types[1], tag_lists[1], owed_alike, moment, payloads, titles,
      descriptions, ordering_keys, versions, sources, timestamps, correlation_ids, causation_ids, traceparents,
      attribute_lists, idle, idle_lease_ms, token, worker);
    -- If every delivery was handed over, no other process need wake up.
    if wake is not null and cardinality(owed_alike) > coalesce(cardinality(string_to_array(handed_over, ',')), 0) then
      perform pg_notify('posthorn.' || btrim('__schema__', '"'), wake);
    end if;
    return query
      select u.place::int, u.id, false, false, array_to_string(owed_alike, ','), moment, handed_over, null::timestamptz,
        null::text, case when pressed_nos is not null then __schema__.pressed(owed_alike, pressed_nos) end
      from unnest(given_ids) with ordinality as u(id, place);
    return;
  end if;

  if wake is not null then perform pg_notify('posthorn.' || btrim('__schema__', '"'), wake); end if;
  if idempotency_keys is not null then
    -- Sorted, so that two callers with the same keys cannot deadlock.
    with inserted as (
      insert into __schema__.idempotency_keys (scope, key, event_id, fingerprint, created_at)
      select w.scope, w.key, w.id, w.fingerprint, moment
      from (
        select distinct on (coalesce(u.scope, ''), u.key) coalesce(u.scope, '') as scope, u.key, u.id, u.fingerprint
        from unnest(idempotency_keys, scopes, given_ids, fingerprints) with ordinality
          as u(key, scope, id, fingerprint, place)
        where u.key is not null
        order by coalesce(u.scope, ''), u.key, u.place
      ) as w
      on conflict do nothing
      returning event_id
    )
    select coalesce(array_agg(i.event_id), '{}') into new_ids from inserted i;
    -- A second event with the same key within this call is a repeat as well.
    select array_agg(u.place) into known_places
    from unnest(idempotency_keys, given_ids) with ordinality as u(key, id, place)
    where u.key is not null and u.id <> all(new_ids);
  end if;

  with item as materialized (
      select u.place::int as place, u.id,
        u.payload, u.type, u.title, u.description, string_to_array(u.tag_list, ',') as tags, u.tag_list,
        u.ordering_key, u.concurrency_key, u.version, u.source::json as source, u.at, u.correlation_id,
        u.causation_id, u.traceparent, u.run_at, u.expires_at, u.max_retries, u.require_route,
        u.attributes::json as attributes
      from unnest(given_ids, payloads, types, titles, descriptions, tag_lists, ordering_keys, concurrency_keys, versions,
          sources, timestamps, correlation_ids, causation_ids, traceparents, run_ats, expires_ats,
          max_retries_list, require_routes, attribute_lists)
        with ordinality as u(id, payload, type, title, description, tag_list, ordering_key, concurrency_key,
          version, source, at, correlation_id, causation_id, traceparent, run_at, expires_at, max_retries,
          require_route, attributes, place)
      where known_places is null or u.place <> all(known_places)
    ),
    -- Route once per type and tags, not once per event.
    kind as materialized (
      select k.type, k.tag_list, o.owed, o.inspects, t.max_age_ms, t.require_route
      from (select distinct coalesce(i.type, '') as type, coalesce(i.tag_list, '') as tag_list from item i) as d
      cross join lateral (select nullif(d.type, '') as type, nullif(d.tag_list, '') as tag_list) as k
      cross join lateral __schema__.route(k.type, string_to_array(k.tag_list, ',')) as o
      left join __schema__.event_types t on t.type = k.type
    ),
    -- The events whose filters or keys must be read one by one.
    inspected as materialized (
      select i.place, l.owed, l.lane_keys
      from item i
      join kind k on coalesce(k.type, '') = coalesce(i.type, '') and coalesce(k.tag_list, '') = coalesce(i.tag_list, '')
      cross join lateral __schema__.inspect(k.owed, i.payload,
        __schema__.event_fields(i.type, i.title, i.description, i.tags, i.ordering_key, i.concurrency_key, i.version, i.source,
          i.correlation_id, i.causation_id, i.attributes),
        i.ordering_key) as l
      where k.inspects
    ),
    judged as materialized (
      select i.*, coalesce(l.owed, k.owed) as owed, l.lane_keys,
        case when is_refusing then __schema__.refusal(coalesce(l.owed, k.owed), full_nos, draining_nos, memory_nos) end
          as refused, coalesce(i.require_route, k.require_route, false) as must_route,
        coalesce(i.expires_at, greatest(moment, i.run_at) + k.max_age_ms * interval '1 ms') as ends_at,
        case when i.run_at > moment then i.run_at end as due_at
      from item i
      join kind k on coalesce(k.type, '') = coalesce(i.type, '') and coalesce(k.tag_list, '') = coalesce(i.tag_list, '')
      left join inspected l on l.place = i.place
    ),
    routed as materialized (
      select j.*
      from judged j
      where j.refused is null and not (together and exists (select 1 from judged r where r.refused is not null))
    ),
    stored as (
      insert into __schema__.events (id, type, title, description, tags, payload, ordering_key, concurrency_key,
        version, source, "timestamp", correlation_id, causation_id, traceparent, run_at, expires_at,
        max_retries, attributes, owed, created_at)
      select r.id, r.type, r.title, r.description, r.tags, r.payload, r.ordering_key, r.concurrency_key,
        r.version, r.source, r.at, r.correlation_id, r.causation_id, r.traceparent, r.run_at, r.ends_at,
        r.max_retries, r.attributes, r.owed, moment
      from routed r
    ),
    target as materialized (
      select k.type, k.tag_list, s.no, s.key_concurrency is not null as gated, s.via = 'pull' as pulled
      from kind k
      cross join lateral unnest(k.owed) as o(no)
      join __schema__.subscriptions s on s.no = o.no
    ),
    delivery as materialized (
      select r.place, r.id, t.no, r.due_at, r.ends_at as expires_at,
        case when r.lane_keys is null then r.ordering_key else r.lane_keys[array_position(r.owed, t.no)] end as ordering_key,
        case when t.gated then r.concurrency_key end as concurrency_key,
        case when t.pulled then r.tags end as tags,
        case when t.no = 0 then r.max_retries end as max_failures
      from routed r
      join target t on coalesce(t.type, '') = coalesce(r.type, '') and coalesce(t.tag_list, '') = coalesce(r.tag_list, '')
      where t.no = any(r.owed)
    ),
    -- A delivery without a key is ready, or deferred until it is due. A delivery with a key enters its lane through the
    -- inbox; if it is delayed it waits outside of its lane until it is due, so that it holds up no other.
    sent as (
      insert into __schema__.runs (subscription, state, event_ids, first_id, ordering_key, concurrency_key, tags,
        due_at, expires_at, max_failures)
      select d.no,
        (case when d.due_at is null then 'ready'
          when num_nonnulls(d.ordering_key, d.concurrency_key) = 0 then 'deferred'
          else 'delayed' end)::__schema__.run_state,
        array_agg(d.id order by d.id), min(d.id),   -- the order of a hash join is arbitrary
        d.ordering_key, d.concurrency_key, d.tags, d.due_at, d.expires_at, d.max_failures
      from (
        select d.no, d.id, d.place, d.ordering_key, d.concurrency_key, d.tags, d.due_at, d.expires_at, d.max_failures,
          0 as stretch
        from delivery d
        where num_nonnulls(d.ordering_key, d.concurrency_key) = 0
        union all
        -- Deliveries that are due at one moment enter their lane in the order of the call: their runs must not interleave.
        select d.no, d.id, d.place, d.ordering_key, d.concurrency_key, d.tags, d.due_at, d.expires_at, d.max_failures,
          row_number() over (partition by d.no, d.ordering_key, d.due_at order by d.id)
            - row_number() over (partition by d.no, d.ordering_key, d.due_at, d.concurrency_key, d.tags, d.expires_at,
              d.max_failures order by d.id)
        from delivery d
        where d.due_at is not null and num_nonnulls(d.ordering_key, d.concurrency_key) > 0
      ) as d
      group by d.no, d.ordering_key, d.concurrency_key, d.tags, d.due_at, d.expires_at, d.max_failures, d.stretch,
        (d.place - 1) / 200
    ),
    lane_arrivals as (
      insert into __schema__.inbox (subscription, event_ids, ordering_keys, concurrency_keys, tag_lists, expires_ats,
        max_failures)
      select d.no, array_agg(d.id order by d.id), array_agg(d.ordering_key order by d.id),
        case when count(d.concurrency_key) > 0 then array_agg(d.concurrency_key order by d.id) end,
        case when count(d.tags) > 0 then array_agg(array_to_string(d.tags, ',') order by d.id) end,
        case when count(d.expires_at) > 0 then array_agg(d.expires_at order by d.id) end,
        case when count(d.max_failures) > 0 then array_agg(d.max_failures order by d.id) end
      from delivery d
      where d.due_at is null and num_nonnulls(d.ordering_key, d.concurrency_key) > 0
      group by d.no, (d.place - 1) / 1000
      order by min(d.id)
    )
    select array_agg(j.place), array_agg(j.id),
      -- '-' says that it is a dead letter already.
      array_agg(case when j.must_route and j.owed = '{}' then '-' else array_to_string(j.owed, ',') end),
      (select array_agg(r.id) filter (where r.must_route and r.owed = '{}') from routed r),
      array_agg(case when j.expires_at is null then j.ends_at end), array_agg(j.refused),
      array_agg(case when pressed_nos is not null then __schema__.pressed(j.owed, pressed_nos) end)
    into places, ids, owed_lists, unrouted_ids, ends, refusals, pressed_lists
    from judged j;

  return query
    select u.place, u.id, false, false, case when u.refused is null then u.owed else '' end, moment, null::text, u.ends_at,
      u.refused, u.pressed
    from unnest(places, ids, owed_lists, ends, refusals, pressed_lists) as u(place, id, owed, ends_at, refused, pressed);

  if is_refusing and idempotency_keys is not null then
    -- A refused event leaves no key behind, and its repeats within this call are refused as well.
    delete from __schema__.idempotency_keys k
    using unnest(idempotency_keys, scopes, given_ids) as g(key, scope, id), unnest(ids, refusals) as r(id, refused)
    where (r.refused is not null or (together and array_remove(refusals, null) <> '{}'))
      and g.id = r.id and k.scope = coalesce(g.scope, '') and k.key = g.key and k.event_id = g.id;
    return query
      select p.place, given_ids[p.place], false, false, ''::text, moment, null::text, null::timestamptz, r.refused, null::text
      from unnest(known_places) as p(place)
      join unnest(places, refusals) as r(place, refused) on r.refused is not null
        and idempotency_keys[r.place] = idempotency_keys[p.place]
        and scopes[r.place] is not distinct from scopes[p.place];
  end if;

  if unrouted_ids is not null then
    insert into __schema__.dead_letters (id, event_id, kind, reason, attempts, failures, event_snapshot, buried_at)
    select __schema__.uuid_v7(), e.id, 'buried', 'no_handler', 0, 0, __schema__.event_document(e), moment
    from __schema__.events e
    where e.id = any(unrouted_ids);
  end if;

  if known_places is not null then
    -- A statement of its own has a new snapshot: it sees the first event even if its transaction has only just committed.
    return query
      select p.place, k.event_id, true, k.fingerprint <> fingerprints[p.place],
        case when e.owed = '{}' and exists (
            select 1 from __schema__.dead_letters l where l.event_id = k.event_id and l.subscription is null)
          then '-'
          -- An event that was deleted on success leaves a record of each of its deliveries.
          when e.id is null then (
            select string_agg(distinct a.subscription::text, ',') from __schema__.audit a where a.event_id = k.event_id)
          else array_to_string(e.owed, ',') end,
        k.created_at,
        null::text,
        case when expires_ats[p.place] is null then e.expires_at end,
        null::text,
        null::text
      from unnest(known_places) as p(place)
      join __schema__.idempotency_keys k on k.key = idempotency_keys[p.place] and k.scope = coalesce(scopes[p.place], '')
      left join __schema__.events e on e.id = k.event_id
        and e.id = any(array(
          select o.event_id from __schema__.idempotency_keys o
          where o.scope = any(given_scopes) and o.key = any(idempotency_keys)))
      where k.scope = any(given_scopes) and k.key = any(idempotency_keys);
  end if;
end $$;

-- Whether JSON is nested deeper than this many levels. Each pass removes the innermost brackets.
create function __schema__.is_nested_beyond(payload text, levels int) returns boolean language plpgsql immutable as $$
declare
  brackets text;
begin
  if length(payload) - length(translate(payload, '[{', '')) <= levels then return false; end if;
  brackets := regexp_replace(payload, '"(?:[^"\\]|\\.)*"', '', 'g');
  brackets := translate(regexp_replace(brackets, '[^][{}]+', '', 'g'), '{}', '[]');
  for level in 1..levels loop
    brackets := replace(brackets, '[]', '');
    exit when brackets = '';
  end loop;
  return brackets <> '';
end $$;

-- Publishes one event, with named arguments and checks, for triggers and hand-written SQL:
--   select posthorn.publish('order.created', '{"order": 7}', ordering_key => 'customer-3');
create function __schema__.publish(
  type text,
  payload text,
  title text default null,
  description text default null,
  tags text default null,
  ordering_key text default null,
  concurrency_key text default null,
  run_at timestamptz default null,
  expires_at timestamptz default null,
  max_retries int default null,
  idempotency_key text default null,
  correlation_id text default null,
  causation_id text default null,
  traceparent text default null,
  require_route boolean default null,
  notify boolean default true
) returns bigint language plpgsql as $$
declare
  tag_list text;
  bad record;
  answer record;
begin
  if type is null and title is null then
    raise exception 'Expected type or title, got neither.' using errcode = '22023';
  end if;
  if type is not null and type !~ '^[A-Za-z0-9_.:-]{1,100}$' then
    raise exception 'Expected type to be up to 100 of A-Z a-z 0-9 _ . : -, got %.', left(type, 200) using errcode = '22023';
  end if;
  select string_agg(t.tag, ',' order by t.place) into tag_list from (
    select distinct on (btrim(u.tag)) btrim(u.tag) as tag, u.place
    from unnest(string_to_array(tags, ',')) with ordinality as u(tag, place)
    where btrim(u.tag) <> ''
    order by btrim(u.tag), u.place
  ) as t;
  if type is null and tag_list is null then
    raise exception 'Expected type or tags, got neither.' using errcode = '22023';
  end if;
  if exists (select 1 from unnest(string_to_array(tag_list, ',')) as t(tag) where length(t.tag) > 100)
    or cardinality(string_to_array(tag_list, ',')) > 32 then
    raise exception 'Expected tags to be up to 32 of up to 100 characters, got %.', left(tags, 200) using errcode = '22023';
  end if;
  -- A key that is too long for an index would fail in admit, and stop all lanes.
  select f.* into bad
  from (values ('title', title, 500), ('ordering_key', ordering_key, 255), ('concurrency_key', concurrency_key, 255),
      ('idempotency_key', idempotency_key, 255), ('correlation_id', correlation_id, 255), ('causation_id', causation_id, 255))
    as f(field, value, chars_max)
  where f.value = '' or length(f.value) > f.chars_max
  limit 1;
  if found then
    raise exception 'Expected % to have 1 to % characters, got %.', bad.field, bad.chars_max, left(bad.value, 300)
      using errcode = '22023';
  end if;
  if length(description) > 10000 then
    raise exception 'Expected description to have up to 10000 characters, got %.', length(description) using errcode = '22023';
  end if;
  if traceparent !~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$' then
    raise exception 'Expected traceparent to be a W3C traceparent, got %.', left(traceparent, 200) using errcode = '22023';
  end if;
  if not isfinite(run_at) or not isfinite(expires_at) then
    raise exception 'Expected run_at and expires_at to be finite, got % and %.', run_at, expires_at using errcode = '22023';
  end if;
  if max_retries < 1 or max_retries > 1000 then
    raise exception 'Expected max_retries to be 1 to 1000, got %.', max_retries using errcode = '22023';
  end if;
  if run_at >= expires_at then
    raise exception 'Expected run_at to be before expires_at, got % and %.', run_at, expires_at using errcode = '22023';
  end if;
  if payload is null or octet_length(payload) > 1048576 then
    raise exception 'Expected payload to be JSON text of up to 1048576 bytes, got %.',
      coalesce(octet_length(payload) || ' bytes', 'null') using errcode = '22023';
  end if;
  perform payload::json;   -- raises 22P02, which says where the JSON is wrong
  if __schema__.is_nested_beyond(payload, 64) then
    raise exception 'Expected payload to be nested up to 64 deep, got more.' using errcode = '22023';
  end if;

  select * into answer from __schema__.publish_many(
    array[payload], array[type], array[title], array[description], array[tag_list], array[ordering_key],
    array[concurrency_key], null, null, null, array[correlation_id], array[causation_id], array[traceparent],
    array[run_at], array[expires_at], array[max_retries::smallint],
    case when idempotency_key is not null then array[idempotency_key] end,
    array[sha256(convert_to(json_build_array(type, payload, title, description, tag_list, ordering_key, concurrency_key,
      run_at, expires_at, max_retries, correlation_id, causation_id, traceparent, require_route)::text, 'UTF8'))],
    array[require_route], null, null, case when notify then '' end);
  if answer.refused is not null then
    raise exception 'The event is not taken: the queue % is %.', substring(answer.refused from ':(.*)$'),
      case split_part(answer.refused, ':', 1)
        when 'full' then 'full' when 'draining' then 'draining' else 'in the memory of another process' end
      using errcode = 'PHQ01';
  end if;
  if answer.conflict then
    raise exception 'The idempotency key % was used before for another event (id %).', idempotency_key, answer.id
      using errcode = '22023';
  end if;
  return answer.id;
end $$;
