-- Memory queues: what is kept of queues whose events pass through the memory of one process.
--
--   memory_queues    who has a queue, until when, and how far it had come
--   memory_events    what was unsettled then: presence says so
--   memory_settled   what a handler has completed in its own transaction
--   routing          counts what changes who is owed what
--
-- A persist is one statement, fenced by the token: it inserts what is new, updates what was tried, deletes what was
-- settled above the checkpoint and moves the checkpoint. What lies below that is removed later, bit by bit.

create table __schema__.memory_queues (
  subscription int primary key,
  token bigint,                        -- null: nobody has it
  worker text,
  held_until timestamptz,
  checkpoint bigint not null default 0,   -- all up to here are settled
  depth int not null default 0,        -- unsettled, as of the last persist
  persisted_at timestamptz,
  crashes int not null default 0       -- holders in a row that vanished
) with (fillfactor = 50);

create table __schema__.memory_events (
  subscription int not null,
  event_id bigint not null,
  type text,
  title text,
  description text,
  payload text not null,
  ordering_key text,
  lane_key text,                       -- what the subscription orders it by
  version text,
  source json,
  "timestamp" timestamptz,
  correlation_id text,
  causation_id text,
  traceparent text,
  max_retries smallint,
  attributes json,
  created_at timestamptz not null,
  attempts int not null,
  failures int not null,
  due_at timestamptz,
  wait_ms bigint,                      -- how long it was to wait then: no longer from any moment on
  last_error text,
  last_error_at timestamptz,
  is_begun boolean not null default false,   -- a suspect that was out: if its process vanished, it is the one to blame
  primary key (subscription, event_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Apart from memory_events, so that a transaction of the caller's locks nothing that a persist needs.
create table __schema__.memory_settled (
  subscription int not null,
  event_id bigint not null,
  token bigint not null,
  primary key (subscription, event_id)
);

-- Whoever routes by what he remembers asks whether it is still so.
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

-- Who is owed an event that somebody has to look into, and under which key: for those that are not stored.
create function __schema__.route_looked_into(
  type text, payload text, title text, description text, ordering_key text, version text, source json,
  correlation_id text, causation_id text, attributes json
) returns table (subscription int, lane_key text) language sql stable as $$
  select o.subscription, o.lane_key
  from __schema__.route(route_looked_into.type, null) as r
  cross join lateral __schema__.inspect(r.owed, route_looked_into.payload,
    __schema__.event_fields(route_looked_into.type, route_looked_into.title, route_looked_into.description, null,
      route_looked_into.ordering_key, null, route_looked_into.version, route_looked_into.source,
      route_looked_into.correlation_id, route_looked_into.causation_id, route_looked_into.attributes),
    route_looked_into.ordering_key) as i
  cross join lateral unnest(i.owed, i.lane_keys) as o(subscription, lane_key)
$$;

-- As seed 002 writes it, like those of queues in the database.
create function __schema__.memory_document(m __schema__.memory_events) returns jsonb language sql stable as $$
  select jsonb_strip_nulls(jsonb_build_object('eventId', m.event_id::text, 'pattern', coalesce(m.type, m.title), 'version', m.version,
      'source', m.source, 'timestamp', __schema__.iso(coalesce(m."timestamp", m.created_at))))
    || jsonb_build_object('payload', __schema__.payload_document(m.payload), 'metadata', jsonb_strip_nulls(jsonb_build_object(
      'correlationId', m.correlation_id, 'causationId', m.causation_id, 'traceId', coalesce(m.attributes ->> 'traceid', split_part(m.traceparent, '-', 2)),
      'retryCount', m.failures, 'lastError', left(coalesce(m.last_error, m.attributes ->> 'lasterror'), 1000),
      'lastErrorTime', case when m.last_error is null then m.attributes ->> 'lasterrortime' else __schema__.iso(m.last_error_at) end)))
$$;

-- How deep a queue is, wherever it is kept.
create or replace function __schema__.queue_depth(queue int, bound int) returns bigint language sql stable as $$
  select __schema__.depth_inside(queue, bound)
    + (select coalesce(sum(cardinality(i.event_ids)), 0) from __schema__.inbox i where i.subscription = queue)
    + (select coalesce(sum(m.depth), 0) from __schema__.memory_queues m where m.subscription = queue)
$$;
