-- Subscriptions: who wants which events, and the rules by which an event is routed.
--
--   event ──type──▶ routes (pattern) ──▶ subscriptions ──tags, filter──▶ owed: the subscriptions that get a delivery
--                                             └──key_pointer──▶ lane key: what each of them orders the event by

-- One row per handler, pull queue or webhook. A deleted subscription keeps its row: old deliveries name its number.
create table __schema__.subscriptions (
  no int generated always as identity (minvalue 0 start 0 maxvalue 2097151) primary key,  -- 21 bits of a delivery id
  id uuid not null unique,
  name text not null,
  via text not null check (via in ('handler', 'pull', 'webhook')),
  status text not null default 'active' check (status in ('active', 'paused', 'draining', 'suspended', 'deleted')),
  types text[] not null default '{}',
  tags text[],                         -- wants events with any of these; null: tags do not matter
  filter json,                         -- further conditions on the event, as the user wrote them
  conditions jsonb,                    -- the same conditions, as routing reads them
  key_pointer text,                    -- where in the event the ordering key is; null: the event's own ordering_key
  key_path text[],                     -- the same, as routing reads it
  on_exhausted text not null default 'skip' check (on_exhausted in ('skip', 'block')),
  retry jsonb not null,
  lease_ms int not null,
  timeout_ms int,
  -- Limits over the whole fleet.
  max_concurrency int,                 -- leased deliveries
  rate_per_second double precision,    -- leases begun per second
  key_concurrency int,                 -- leased deliveries per concurrency_key
  ramp int,                            -- webhooks: leased deliveries while the endpoint recovers
  -- Its queue. Null: no limit, or the default.
  storage text not null default 'database' check (storage in ('database', 'memory')),
  max_depth int,
  high_watermark int,
  on_full text check (on_full in ('refuse', 'hold')),
  batch_size int,                      -- how many deliveries a process leases at once, at most
  processing_interval_ms int,          -- how long a process waits before it leases again
  persistence_threshold int,           -- memory queues: how many events may be in memory only
  -- While it drains: deliveries of events above drain_fence wait until it is resumed, in the inbox or as held runs. Lower
  -- ids may still be uncommitted: their transactions began before drain_xid, and the drain waits for these to end.
  drain_fence bigint,
  drain_xid xid8,
  drained_at timestamptz,
  version int not null default 1,      -- counts its changes, for updates that must not overwrite another change
  handler_seen_at timestamptz,         -- when a process with a handler for it last reported
  created_at timestamptz not null default __schema__.clock(),
  updated_at timestamptz not null default __schema__.clock()
);
create unique index subscriptions_name on __schema__.subscriptions (name) where status <> 'deleted';
-- Subscriptions that may refuse an event: every publish reads this index, and it is nearly always empty.
create index subscriptions_barring on __schema__.subscriptions (no) where drain_fence is not null or storage = 'memory';

-- Subscriptions under the names that the library gives their fields.
create view __schema__.subscription_rows as
  select s.no, s.id, s.name, s.via, s.status, s.types, s.tags, s.filter, s.key_pointer as "orderingKey",
    s.on_exhausted as "onExhausted", s.retry, s.lease_ms as "leaseMs", s.timeout_ms as "timeoutMs",
    s.max_concurrency as "maxConcurrency", s.rate_per_second as "ratePerSecond", s.key_concurrency as "keyConcurrency",
    s.ramp, s.storage,
    json_build_object('maxQueueDepth', s.max_depth, 'highWatermark', s.high_watermark, 'onFull', s.on_full,
      'batchSize', s.batch_size, 'processingInterval', s.processing_interval_ms,
      'persistenceThreshold', s.persistence_threshold) as queue
  from __schema__.subscriptions s;

-- Whether a subscription has a limit over the whole fleet: its leases are then taken one after the other.
create function __schema__.is_limited(max_concurrency int, rate_per_second double precision, ramp int) returns boolean
  language sql immutable as $$
  select num_nonnulls(max_concurrency, rate_per_second, ramp) > 0
$$;

-- One row per pattern of a subscription. The type a.b.c is looked up as a.b.c, a.b.*, a.* and *.
create table __schema__.routes (
  pattern text not null,
  subscription int not null,
  primary key (pattern, subscription)
);

-- What was defined for all events of a type. A type needs no row here.
create table __schema__.event_types (
  type text primary key,
  max_age_ms bigint,
  require_route boolean,
  keep_ms bigint check (keep_ms >= 0)  -- how long finished events are kept; 0: until they succeed; null: the hub's default
);
create index event_types_eager on __schema__.event_types (type) where keep_ms = 0;


-- Changes -----------------------------------------------------------------------------------------------------------------

-- Counts every change of who is owed what. A process that routes from its memory compares this number first.
create table __schema__.routing (
  version bigint not null
) with (fillfactor = 10);
insert into __schema__.routing (version) values (1);

create function __schema__.count_routing() returns trigger language plpgsql as $$
begin
  update __schema__.routing set version = version + 1;
  return null;
end $$;
create trigger routes_routing after insert or update or delete on __schema__.routes
  for each statement execute function __schema__.count_routing();
create trigger event_types_routing after insert or update or delete on __schema__.event_types
  for each statement execute function __schema__.count_routing();
create trigger subscriptions_routing after update on __schema__.subscriptions
  for each row when (old.tags is distinct from new.tags or old.conditions is distinct from new.conditions
    or old.key_path is distinct from new.key_path or old.storage <> new.storage
    or (old.status = 'deleted') <> (new.status = 'deleted'))
  execute function __schema__.count_routing();

-- A change of a subscription raises its version and notifies every process. Triggers do both, so no statement can forget it.
-- A statement that changes only the endpoint or its secrets sets updated_at for the same effect.
create function __schema__.version_subscription() returns trigger language plpgsql as $$
begin
  new.version := old.version + 1;
  return new;
end $$;
create trigger subscriptions_version before update on __schema__.subscriptions
  for each row when ((old.types, old.tags, old.filter::text, old.key_pointer, old.on_exhausted, old.retry, old.lease_ms,
    old.timeout_ms, old.max_concurrency, old.rate_per_second, old.key_concurrency, old.status, old.updated_at)
    is distinct from (new.types, new.tags, new.filter::text, new.key_pointer, new.on_exhausted, new.retry, new.lease_ms,
    new.timeout_ms, new.max_concurrency, new.rate_per_second, new.key_concurrency, new.status, new.updated_at))
  execute function __schema__.version_subscription();

create function __schema__.tell_subscribers() returns trigger language plpgsql as $$
begin
  perform pg_notify('posthorn.' || btrim('__schema__', '"'), 'subscribers');
  return null;
end $$;
create trigger subscriptions_insert after insert on __schema__.subscriptions
  for each row execute function __schema__.tell_subscribers();
create trigger subscriptions_update after update on __schema__.subscriptions
  for each row when (old.version <> new.version or (old.ramp is null) <> (new.ramp is null))
  execute function __schema__.tell_subscribers();


-- Routing -----------------------------------------------------------------------------------------------------------------

-- Every pattern that matches a type: for order.created.eu these are order.created.eu, order.created.*, order.* and *.
-- It is written in plpgsql, like route: a function in SQL is planned again by every statement that calls it.
create function __schema__.patterns_for(type text) returns text[] language plpgsql immutable as $$
declare
  segments text[] := string_to_array(type, '.');
  patterns text[] := array[type, '*'];
begin
  if type is null then return '{}'; end if;   -- an event with tags alone goes to the work queue alone
  for n in 1 .. cardinality(segments) - 1 loop
    patterns := patterns || (array_to_string(segments[1:n], '.') || '.*');
  end loop;
  return patterns;
end $$;

-- The subscriptions that want events of a type with these tags. `inspects` says that at least one of them must look into each
-- event, because of its filter or its ordering key: see inspect.
create function __schema__.route(type text, tags text[], out owed int[], out inspects boolean) language plpgsql stable as $$
declare
  patterns text[] := __schema__.patterns_for(type);
begin
  select coalesce(array_agg(o.no order by o.no), '{}'), coalesce(bool_or(o.inspects), false)
  into owed, inspects
  from (
    select s.no, num_nonnulls(s.conditions, s.key_path) > 0 as inspects
    from __schema__.routes r
    join __schema__.subscriptions s on s.no = r.subscription
    where r.pattern = any(patterns)
      and s.status <> 'deleted'
      and (s.tags is null or s.tags && route.tags)
    union
    select 0, false where route.tags is not null   -- an event with tags is owed once to the work queue
  ) as o;
end $$;

-- JSON as filters and keys read it. Null: jsonb cannot hold it, because of an escaped NUL, half a surrogate pair or a number
-- beyond numeric. Parsing a megabyte takes 20 ms, so callers that read several values keep the answer.
create function __schema__.readable(document text) returns jsonb language plpgsql immutable as $$
begin
  return document::jsonb;
exception when data_exception or program_limit_exceeded then
  return null;
end $$;

-- The value that a path leads to. A place in an array is written as in RFC 6901, 0 or 12. `#>` alone would also accept -1,
-- +1, 01 and ' 1'.
create function __schema__.value_at(path text[], document jsonb) returns jsonb language plpgsql immutable as $$
begin
  for n in 1 .. cardinality(path) loop
    if path[n] ~ '^\s*[-+0-9]' and path[n] !~ '^(0|[1-9][0-9]*)$' and jsonb_typeof(document #> path[:n - 1]) = 'array' then
      return null;
    end if;
  end loop;
  return document #> path;
end $$;

-- The value that a path leads to, in the payload or in the event's own fields.
create function __schema__.event_value(path text[], payload jsonb, fields jsonb) returns jsonb language sql immutable as $$
  select case when path[1] = 'payload' then __schema__.value_at(path[2:], payload) else __schema__.value_at(path, fields) end
$$;

-- Whether all conditions hold. A condition on something unreadable does not hold, whatever it is.
create function __schema__.meets(conditions jsonb, payload jsonb, fields jsonb) returns boolean
  language plpgsql immutable as $$
begin
  return not exists (
    select 1
    from (
      select x.op, x.operand, __schema__.event_value(x.path, payload, fields) as found,
        case when x.path[1] = 'payload' then payload else fields end is null as is_unreadable
      from jsonb_to_recordset(conditions) as x(path text[], op text, operand jsonb)
      offset 0   -- keeps the planner from looking up each value several times
    ) as c
    where c.is_unreadable or case c.op
        when 'exists' then (c.found is not null) = (c.operand = 'true')
        when 'any' then jsonb_typeof(c.found) not in ('array', 'object') and c.operand @> c.found
        when 'prefix' then jsonb_typeof(c.found) = 'string' and starts_with(c.found #>> '{}', c.operand #>> '{}')
        when 'gt' then case when jsonb_typeof(c.found) = 'number' then c.found::numeric > c.operand::numeric end
        when 'gte' then case when jsonb_typeof(c.found) = 'number' then c.found::numeric >= c.operand::numeric end
        when 'lt' then case when jsonb_typeof(c.found) = 'number' then c.found::numeric < c.operand::numeric end
        when 'lte' then case when jsonb_typeof(c.found) = 'number' then c.found::numeric <= c.operand::numeric end
      end is not true);
end $$;

-- The ordering key that a path leads to: the text of a scalar of 1 to 255 characters. Null, so no order: anything else.
-- `document` is the parsed payload. A number is read a second time from the text of the payload: jsonb keeps the value of a
-- number but not how it is written.
create function __schema__.key_at(path text[], payload text, document jsonb, fields jsonb) returns text
  language plpgsql immutable as $$
declare
  found jsonb := __schema__.event_value(path, document, fields);
  key text;
begin
  if path[1] = 'payload' and jsonb_typeof(found) = 'number' then key := payload::json #>> path[2:];
  elsif jsonb_typeof(found) in ('string', 'number', 'boolean') then key := found #>> '{}'; end if;
  return case when length(key) between 1 and 255 then key end;
end $$;

-- The fields of an event that a filter or a key may name. Null: its `source` or `attributes` are unreadable.
create function __schema__.event_fields(type text, title text, description text, tags text[], ordering_key text,
  concurrency_key text, version text, source json, correlation_id text, causation_id text, attributes json
) returns jsonb language plpgsql immutable as $$
begin
  return jsonb_build_object('type', type, 'title', title, 'description', description, 'tags', tags, 'ordering_key',
    ordering_key, 'concurrency_key', concurrency_key, 'version', version, 'source', source, 'correlation_id', correlation_id,
    'causation_id', causation_id, 'attributes', attributes);
exception when data_exception or program_limit_exceeded then
  return null;
end $$;

-- The same fields of an event that is already stored.
create function __schema__.event_fields(e __schema__.events) returns jsonb language sql immutable as $$
  select __schema__.event_fields(e.type, e.title, e.description, e.tags, e.ordering_key, e.concurrency_key, e.version,
    e.source, e.correlation_id, e.causation_id, e.attributes)
$$;

-- Which of these candidates take an event, and by which key each of them orders it. Parses the payload once, and only if a
-- candidate reads the payload.
create function __schema__.inspect(
  candidates int[], payload text, fields jsonb, ordering_key text, out owed int[], out lane_keys text[]
) language plpgsql stable as $$
declare
  document jsonb;
begin
  if exists (
    select 1 from __schema__.subscriptions s
    where s.no = any(candidates) and (s.key_path[1] = 'payload' or s.conditions @> '[{"path": ["payload"]}]')
  ) then
    document := __schema__.readable(payload);
  end if;
  -- Each path is looked up once, even if many subscriptions have it: for a number the payload's text is read again.
  with taker as materialized (
    select s.no, s.key_path
    from __schema__.subscriptions s
    where s.no = any(candidates) and (s.conditions is null or __schema__.meets(s.conditions, document, fields))
  ),
  pointed as materialized (
    select p.key_path, __schema__.key_at(p.key_path, inspect.payload, document, fields) as lane_key
    from (select distinct t.key_path from taker t where t.key_path is not null) as p
  )
  select coalesce(array_agg(t.no order by t.no), '{}'),
    array_agg(case when t.key_path is null then inspect.ordering_key else p.lane_key end order by t.no)
  into owed, lane_keys
  from taker t
  left join pointed p on p.key_path = t.key_path;
end $$;

-- The subscriptions that would be owed an event that is already stored.
create function __schema__.owed_by(e __schema__.events) returns int[] language sql stable as $$
  select i.owed
  from __schema__.route(e.type, e.tags) as r
  cross join lateral __schema__.inspect(r.owed, e.payload, __schema__.event_fields(e), e.ordering_key) as i
$$;

-- The key by which a subscription with this key_path orders an event that is already stored.
create function __schema__.lane_key(key_path text[], e __schema__.events) returns text language sql immutable as $$
  select case when key_path is null then e.ordering_key
    else __schema__.key_at(key_path, e.payload, __schema__.readable(e.payload), __schema__.event_fields(e)) end
$$;
