-- Memory queues: what the database keeps of queues whose events pass through the memory of one process.
--
--   memory_queues    which process has a queue, until when, and how far the queue has come
--   memory_events    the events that were not settled at the last persist: a row means unsettled
--   memory_settled   events that a handler has completed within its own transaction
--
-- A persist is one statement, fenced by the token: it inserts new events, updates events that were attempted, deletes events
-- that were settled above the checkpoint, and moves the checkpoint. Rows below the checkpoint are deleted later, in steps.

create table __schema__.memory_queues (
  subscription int primary key,
  token bigint,                        -- null: no process has it
  worker text,
  held_until timestamptz,
  checkpoint bigint not null default 0,   -- all events up to here are settled
  depth int not null default 0,        -- unsettled events at the last persist
  persisted_at timestamptz,
  crashes int not null default 0       -- how many owners in a row have vanished
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
  wait_ms bigint,                      -- how long it had to wait when it failed: a step of the clock must not make it longer
  last_error text,
  last_error_at timestamptz,
  is_begun boolean not null default false,   -- a suspect under way: if its process vanishes, this event is to blame
  primary key (subscription, event_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- The event of a memory queue as it would be stored among all events.
create function __schema__.memory_event(m __schema__.memory_events) returns __schema__.events language sql stable as $$
  select row(m.event_id, m.type, m.title, m.description, null, m.payload, m.ordering_key, null, m.version, m.source,
    m."timestamp", m.correlation_id, m.causation_id, m.traceparent, null, null, m.max_retries, m.attributes,
    array[m.subscription], m.created_at, null)::__schema__.events
$$;

-- Apart from memory_events, so that a caller's transaction locks no row that a persist needs.
create table __schema__.memory_settled (
  subscription int not null,
  event_id bigint not null,
  token bigint not null,
  primary key (subscription, event_id)
);

-- The subscriptions that are owed an event that is not stored, and its key in each, where routing must look into the event.
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
