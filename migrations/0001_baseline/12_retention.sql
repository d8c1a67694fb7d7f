-- Retention: what is kept, for how long, and what was removed.
--
--   event_types.keep_ms   how long finished events of a type are kept; 0: until they succeed
--   removals              removed events whose audit is still kept: the audit is removed by this list
--   retention_walks       how far the walks through large tables are, so that processes take turns and none starts over
--
-- The state of a delivery is its newest audit record, so the audit of an event is never removed before the event.

-- One row per step, or per settlement, that removed events: their audit is found without a search.
create table __schema__.removals (
  id bigint generated always as identity primary key,
  event_ids bigint[] not null,
  finished_at timestamptz not null         -- when the last of them finished: their audit is kept from then on
);
create index removals_finished_at on __schema__.removals (finished_at);

create table __schema__.retention_walks (
  name text primary key,                   -- events, type:<event type>, lanes; or turn: which process may walk, until due_at
  holder text,
  reached bigint not null default 0,       -- this pass is done up to here
  reached_key text not null default '',
  kept bigint,                             -- the first row that had to stay in this pass: the next pass begins there
  due_at timestamptz not null default '-infinity',
  full_at timestamptz not null default '-infinity'   -- when a pass last began at the very start
);

-- Which of these events are finished (nothing of them waits or is leased), and since when.
create function __schema__.finished_events(ids bigint[]) returns table (event_id bigint, finished_at timestamptz)
  language sql stable as $$
  with newest as materialized (
    select distinct on (a.event_id, a.subscription) a.event_id, a.subscription, a.settlement, a.finished_at
    from __schema__.audit a
    where a.event_id = any((select ids)::bigint[])
    order by a.event_id, a.subscription, a.id desc
  )
  select e.id, greatest(e.created_at, max(n.finished_at))
  from __schema__.events e
  left join newest n on n.event_id = e.id and n.subscription = any(e.owed)
    and n.settlement in ('completed', 'buried', 'expired', 'cancelled', 'discarded')
  where e.id = any((select ids)::bigint[])
  group by e.id
  having count(n.subscription) = cardinality(e.owed)
$$;

-- Removes those of these events that have succeeded. An event that another transaction has locked stays: the walk removes
-- it later.
create function __schema__.remove_succeeded(ids bigint[]) returns void language plpgsql
set jit = off
set plan_cache_mode = force_generic_plan   -- planning takes longer than running
as $$
begin
  with candidate as materialized (
    select e.id, e.owed
    from __schema__.events e
    where e.id = any(ids)
    order by e.id
    for update skip locked
  ),
  -- An event with one delivery has succeeded with it; of an event with several, look at all of them.
  ended as materialized (
    select c.id from candidate c where cardinality(c.owed) = 1
    union all
    select c.id
    from candidate c
    cross join lateral (
      select count(*) as deliveries
      from (
        select distinct on (a.subscription) a.subscription, a.settlement
        from __schema__.audit a
        where a.event_id = c.id and a.subscription = any(c.owed)
        order by a.subscription, a.id desc
      ) as n
      where n.settlement in ('completed', 'cancelled', 'discarded')
    ) as n
    where cardinality(c.owed) > 1 and n.deliveries = cardinality(c.owed)
  ),
  succeeded as materialized (
    select d.id
    from ended d
    where d.id not in (
      select l.event_id from __schema__.dead_letters l where l.event_id = any(ids) and l.redriven_at is null)
  ),
  removed as (
    delete from __schema__.events e where e.id = any(array(select s.id from succeeded s))
  )
  insert into __schema__.removals (event_ids, finished_at)
  select array_agg(s.id order by s.id), __schema__.clock() from succeeded s having count(*) > 0;
end $$;

-- Events with keep_ms = 0 are removed with the settlement of their last delivery. If their last two deliveries settle at the
-- same moment, neither transaction sees the other, and the walk removes the event. Most settlements are of other types, so
-- the trigger costs these as little as possible.
create function __schema__.notice_success() returns trigger language plpgsql as $$
declare
  ids bigint[];
begin
  if not exists (select 1 from __schema__.event_types t where t.keep_ms = 0) then return null; end if;
  ids := array(
    select e.id
    from __schema__.events e
    where e.id = any(array(select f.event_id from fresh f where f.settlement = 'completed'))
      and e.type in (select t.type from __schema__.event_types t where t.keep_ms = 0));
  if ids <> '{}' then perform __schema__.remove_succeeded(ids); end if;
  return null;
end $$;
create trigger audit_succeeded after insert on __schema__.audit
  referencing new table as fresh
  for each statement execute function __schema__.notice_success();

-- JSON without the characters that text cannot hold: reading one member decodes the whole document, and would fail.
create function __schema__.decodable(document json) returns json language sql immutable as $$
  select regexp_replace(document::text, '\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\\ufffd', 'g')::json
$$;

-- A snapshot of an event without its contents. created_at must stay the last member: see snapshot_time.
create function __schema__.purged_document(snapshot json, purged_at timestamptz) returns json language sql stable as $$
  select json_build_object(
    'id', s.d->'id', 'type', s.d->'type', 'title', null, 'description', null, 'tags', s.d->'tags', 'payload', null,
    'ordering_key', s.d->'ordering_key', 'concurrency_key', s.d->'concurrency_key', 'version', s.d->'version',
    'source', s.d->'source', 'timestamp', s.d->'timestamp', 'correlation_id', s.d->'correlation_id',
    'causation_id', s.d->'causation_id', 'traceparent', s.d->'traceparent', 'run_at', s.d->'run_at',
    'expires_at', s.d->'expires_at', 'max_retries', s.d->'max_retries', 'attributes', null, 'purged_at', purged_at,
    'created_at', s.d->'created_at')
  from (select __schema__.decodable(snapshot) as d) as s
$$;
