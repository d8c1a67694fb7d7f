-- Queues with state: how full they are, what they have done, and the record of it.
--
--   queue_pressure      the depth of queues with a limit, measured about five times a second
--   queue_tallies       what each settling statement has done, until it is added up
--   queue_counters      the sum of the tallies so far
--   event_queue_state   a document per queue, as of the last checkpoint; its status and config are always current
--   queue_checkpoints   how far a queue had come, and when
--   queue_recoveries    the unfinished work that a process found when it started

create table __schema__.queue_pressure (
  subscription int primary key,
  level text not null check (level in ('none', 'high', 'full')),
  is_refusing boolean not null,            -- it is full, and publishers are refused
  depth bigint not null,                   -- deliveries that wait or are leased; not counted beyond the limit
  latest_id bigint not null,               -- the last event id at that moment: the depth cannot have grown by more since
  measured_at timestamptz not null
) with (fillfactor = 50);
create index queue_pressure_level on __schema__.queue_pressure (subscription) where level <> 'none';

-- One row per statement that records attempts, and queue.
create table __schema__.queue_tallies (
  id bigint generated always as identity primary key,
  subscription int not null,
  processed int not null,
  errors int not null,
  timed int not null,                      -- attempts whose duration is known
  execution_ms bigint not null,
  last_id bigint                           -- the last event that was completed
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

create table __schema__.queue_counters (
  subscription int primary key,
  processed bigint not null,
  errors bigint not null,
  timed bigint not null,
  execution_ms bigint not null,
  last_id bigint,
  last_tally bigint not null default 0,    -- the tally that last_id comes from
  ended_per_second double precision not null default 0,   -- recent attempts per second, as of counted_at
  counted_at timestamptz not null
) with (fillfactor = 50);

-- A rate decays from the moment it was measured: a queue at rest writes nothing. exp() of less than -100 would be an error.
create function __schema__.rate_now(per_second double precision, at timestamptz) returns double precision
  language sql stable as $$
  select per_second * exp(greatest(least(date_part('epoch', at - __schema__.clock()), 0) / 30, -100))
$$;

-- What each queue has done: exact at any time, whether or not its tallies were added up. They are read once for all queues.
create view __schema__.queue_totals as
  with tallied as materialized (
    select q.subscription, sum(q.processed)::bigint as processed, sum(q.errors)::bigint as errors, sum(q.timed)::bigint as timed,
      sum(q.execution_ms)::bigint as execution_ms,
      (array_agg(q.last_id order by q.id desc) filter (where q.last_id is not null))[1] as last_id
    from __schema__.queue_tallies q
    group by q.subscription
  )
  select s.no as subscription, coalesce(c.processed, 0) + coalesce(t.processed, 0) as processed,
    coalesce(c.errors, 0) + coalesce(t.errors, 0) as errors, coalesce(c.timed, 0) + coalesce(t.timed, 0) as timed,
    coalesce(c.execution_ms, 0) + coalesce(t.execution_ms, 0) as execution_ms, coalesce(t.last_id, c.last_id) as last_id,
    coalesce(__schema__.rate_now(c.ended_per_second, c.counted_at), 0) as ended_per_second
  from __schema__.subscriptions s
  left join __schema__.queue_counters c on c.subscription = s.no
  left join tallied t on t.subscription = s.no;

create table __schema__.event_queue_state (
  id varchar(255) not null,                -- the name of the queue
  events jsonb not null default '[]',      -- the first 100 that waited
  checkpoint_id varchar(255),
  queue_metrics jsonb not null default '{"totalProcessed": 0, "totalErrors": 0, "avgProcessingTimeMs": 0}',
  config jsonb not null default '{}',
  status varchar(50) not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  checked_at timestamptz not null default '-infinity',   -- when its metrics and events were last compared
  head_mark bigint,                        -- queue_head_mark at that moment
  subscription int not null,               -- the last subscription of this name
  constraint event_queue_state_id_idx primary key (id)
);
create index event_queue_state_status_idx on __schema__.event_queue_state (status);

create table __schema__.queue_checkpoints (
  id uuid primary key,
  queue_id varchar(255) not null references __schema__.event_queue_state (id),
  checkpoint_id varchar(255),
  event_count bigint not null,             -- events processed by then
  reason text not null check (reason in ('requested', 'interval', 'stop', 'threshold')),
  created_at timestamptz not null
);
create index queue_checkpoints_queue_id_idx on __schema__.queue_checkpoints (queue_id, id);
create index queue_checkpoints_created_at_idx on __schema__.queue_checkpoints (created_at);

create table __schema__.queue_recoveries (
  id uuid primary key,
  queue_id varchar(255) not null,
  worker text not null,                    -- the process that started
  checkpoint_id varchar(255),
  events_recovered bigint not null,
  recovery_start_time timestamptz not null,
  recovery_complete_time timestamptz,
  status text not null check (status in ('running', 'completed', 'failed'))
);
create index queue_recoveries_queue on __schema__.queue_recoveries (queue_id, id);


-- Status and config -------------------------------------------------------------------------------------------------------

-- What a full queue does. One full subscriber must not stop the producers of all the others, so it holds. The work queue has
-- no other subscriber, and a memory queue has no room, so these refuse.
create function __schema__.on_full(s __schema__.subscriptions) returns text language sql immutable as $$
  select coalesce(s.on_full, case when s.no = 0 or s.storage = 'memory' then 'refuse' else 'hold' end)
$$;

-- The options of a queue with their defaults, as its document shows them.
create function __schema__.queue_config(s __schema__.subscriptions) returns jsonb language sql immutable as $$
  select jsonb_build_object('maxQueueDepth', d.depth, 'batchSize', s.batch_size, 'processingInterval', s.processing_interval_ms,
    'persistenceThreshold', coalesce(s.persistence_threshold, case when s.storage = 'memory' then 500 end),
    'highWatermark', coalesce(s.high_watermark,
      case when s.storage = 'memory' then least(8000, d.depth) else (d.depth::bigint * 4 + 4) / 5 end),
    'on_full', __schema__.on_full(s), 'storage', s.storage)
  from (select coalesce(s.max_depth, case when s.storage = 'memory' then 10000 end) as depth) as d
$$;

-- Copies status and config of a subscription into its document. A subscription with the name of a deleted one begins a new
-- document, and later changes of the deleted one do not touch it.
create function __schema__.keep_queue_state() returns trigger language plpgsql as $$
begin
  insert into __schema__.event_queue_state as q (id, config, status, created_at, updated_at, subscription)
  values (new.name, __schema__.queue_config(new), new.status, new.created_at, __schema__.clock(), new.no)
  on conflict (id) do update
  set subscription = excluded.subscription, config = excluded.config, status = excluded.status,
    updated_at = excluded.updated_at, created_at = excluded.created_at,
    events = case when excluded.status = 'deleted' or q.subscription < excluded.subscription then '[]' else q.events end,
    head_mark = case when excluded.status = 'deleted' or q.subscription < excluded.subscription then null else q.head_mark end,
    checkpoint_id = case when q.subscription < excluded.subscription then null else q.checkpoint_id end,
    queue_metrics = case when q.subscription < excluded.subscription
      then '{"totalProcessed": 0, "totalErrors": 0, "avgProcessingTimeMs": 0}' else q.queue_metrics end
  where q.subscription <= excluded.subscription;
  return null;
end $$;
create trigger subscriptions_queue_insert after insert on __schema__.subscriptions
  for each row execute function __schema__.keep_queue_state();
create trigger subscriptions_queue_update after update on __schema__.subscriptions
  for each row when (old.status <> new.status or __schema__.queue_config(old) <> __schema__.queue_config(new))
  execute function __schema__.keep_queue_state();

-- The work queue, which every schema has: an event with tags is owed to it once, for pull workers.
insert into __schema__.subscriptions (id, name, via, retry, lease_ms)
values (__schema__.uuid_v7(), 'work', 'pull', '{"kind": "fixed", "delayMs": 300000, "failuresMax": 3}', 60000);

-- Deletes the measurement when a limit changes: it is measured again, or has no limit any more.
create function __schema__.forget_pressure() returns trigger language plpgsql as $$
begin
  delete from __schema__.queue_pressure where subscription = new.no;
  return null;
end $$;
create trigger subscriptions_pressure after update on __schema__.subscriptions
  for each row when (old.max_depth is distinct from new.max_depth or old.high_watermark is distinct from new.high_watermark
    or old.on_full is distinct from new.on_full or old.storage <> new.storage
    or (old.status <> 'deleted' and new.status = 'deleted'))
  execute function __schema__.forget_pressure();


-- Depth -------------------------------------------------------------------------------------------------------------------

-- How many deliveries of a queue wait or are leased, without those in the inbox. Reads at most `bound` rows of each kind.
create function __schema__.depth_inside(queue int, bound int) returns bigint language sql stable as $$
  select
    (select coalesce(sum(cardinality(r.event_ids)), 0) from (
      select r.event_ids from __schema__.runs r
      where r.subscription = queue and r.state = 'ready' order by r.first_id limit bound) as r)
    + (select coalesce(sum(cardinality(r.event_ids)), 0) from (
      select r.event_ids from __schema__.runs r
      where r.subscription = queue and r.state = 'leased' limit bound) as r)
    + (select coalesce(sum(cardinality(r.event_ids)), 0) from (
      select r.event_ids from __schema__.runs r
      where r.subscription = queue and r.state in ('deferred', 'delayed', 'held', 'gated', 'blocked')
      order by r.first_id limit bound) as r)
    + (select coalesce(sum(cardinality(q.event_ids)), 0) from (
      select q.event_ids from __schema__.lane_queue q where q.subscription = queue limit bound) as q)
$$;

-- How many deliveries of a queue wait or are leased, wherever they are kept.
create function __schema__.queue_depth(queue int, bound int) returns bigint language sql stable as $$
  select __schema__.depth_inside(queue, bound)
    + (select coalesce(sum(cardinality(i.event_ids)), 0) from __schema__.inbox i where i.subscription = queue)
    + (select coalesce(sum(m.depth), 0) from __schema__.memory_queues m where m.subscription = queue)
$$;


-- The document's events ---------------------------------------------------------------------------------------------------

-- A time as JavaScript writes it: 2026-01-31T12:00:00.000Z.
create function __schema__.iso(at timestamptz) returns text language sql immutable as $$
  select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- A payload within the document of a queue. If jsonb cannot hold the payload, it is given as text; a large one is left out.
create function __schema__.payload_document(payload text) returns jsonb language plpgsql immutable as $$
begin
  if octet_length(payload) > 16384 then return null; end if;
  return payload::jsonb;
exception when data_exception or program_limit_exceeded then
  return to_jsonb(payload);
end $$;

-- The first 100 deliveries of a queue: those in runs by age, then those in lanes, then those in the inbox. `lease` is the
-- token of the lease.
create function __schema__.queue_head(queue int) returns table (event_id bigint, place bigint, lease bigint)
  language sql stable as $$
  select h.event_id, row_number() over (), h.lease
  from (
    select u.event_id, s.lease
    from (
      (select 0 as source, r.first_id as a, r.id as b, r.event_ids, null::bigint as lease from __schema__.runs r
       where r.subscription = queue and r.state = 'ready' order by r.first_id, r.id limit 100)
      union all
      (select 0, r.first_id, r.id, r.event_ids, r.token from __schema__.runs r
       where r.subscription = queue and r.state = 'leased' order by r.first_id, r.id limit 100)
      union all
      (select 0, r.first_id, r.id, r.event_ids, null from __schema__.runs r
       where r.subscription = queue and r.state in ('deferred', 'delayed', 'held', 'gated', 'blocked')
       order by r.first_id, r.id limit 100)
      union all
      (select 1, row_number() over (order by q.ordering_key, q.position), 0, q.event_ids, null
       from (
         select q.ordering_key, q.position, q.event_ids from __schema__.lane_queue q
         where q.subscription = queue order by q.ordering_key, q.position limit 100
       ) as q)
      union all
      (select 2, i.id, 0, i.event_ids, null from __schema__.inbox i
       where i.subscription = queue and i.event_ids is not null order by i.id limit 100)
    ) as s
    cross join lateral unnest(s.event_ids) with ordinality as u(event_id, place)
    order by s.source, s.a, s.b, u.place
    limit 100
  ) as h
$$;

-- A number that changes when other deliveries are first, or when another worker has leased them.
create function __schema__.queue_head_mark(queue int) returns bigint language sql stable as $$
  select coalesce(hashtextextended(string_agg(h.event_id || ':' || coalesce(h.lease, 0), ',' order by h.place), 0), 0)
  from __schema__.queue_head(queue) as h
$$;

-- The events of the document of a queue.
create function __schema__.queue_events(queue int) returns jsonb language sql stable as $$
  with head as materialized (
    select h.event_id, h.place from __schema__.queue_head(queue) as h
  )
  select coalesce(jsonb_agg(
    jsonb_strip_nulls(jsonb_build_object('eventId', e.id::text, 'pattern', coalesce(e.type, e.title), 'version', e.version,
      'source', e.source, 'timestamp', __schema__.iso(coalesce(e."timestamp", e.created_at))))
    || jsonb_build_object('payload', __schema__.payload_document(e.payload), 'metadata', jsonb_strip_nulls(jsonb_build_object(
      'correlationId', e.correlation_id, 'causationId', e.causation_id,
      'traceId', coalesce(e.attributes ->> 'traceid', split_part(e.traceparent, '-', 2)),
      'retryCount', d.failures, 'lastError', coalesce(d.last_error, e.attributes ->> 'lasterror'),
      'lastErrorTime',
      case when d.last_error is null then e.attributes ->> 'lasterrortime' else __schema__.iso(d.last_error_at) end,
      'processingStartTime', __schema__.iso(d.leased_at))))
    order by h.place), '[]')
  from head h
  join __schema__.events e on e.id = h.event_id
  join __schema__.delivery_states((select array_agg(x.event_id) from head x)) as d
    on d.event_id = e.id and d.subscription = queue
$$;

-- The same for an event of a memory queue.
create function __schema__.memory_document(m __schema__.memory_events) returns jsonb language sql stable as $$
  select jsonb_strip_nulls(jsonb_build_object('eventId', m.event_id::text, 'pattern', coalesce(m.type, m.title),
      'version', m.version, 'source', m.source, 'timestamp', __schema__.iso(coalesce(m."timestamp", m.created_at))))
    || jsonb_build_object('payload', __schema__.payload_document(m.payload), 'metadata', jsonb_strip_nulls(jsonb_build_object(
      'correlationId', m.correlation_id, 'causationId', m.causation_id,
      'traceId', coalesce(m.attributes ->> 'traceid', split_part(m.traceparent, '-', 2)),
      'retryCount', m.failures, 'lastError', left(coalesce(m.last_error, m.attributes ->> 'lasterror'), 1000),
      'lastErrorTime',
      case when m.last_error is null then m.attributes ->> 'lasterrortime' else __schema__.iso(m.last_error_at) end)))
$$;
