-- The engine: the tables that deliveries move through.
--
--   publish ──▶ events                                          the facts; only a purge changes them
--          ├──▶ runs (ready, or deferred until run_at)          deliveries without an ordering key
--          └──▶ inbox ──admit──▶ lane_queue ──admit──▶ runs     deliveries with one: one run per lane at a time
--
--   runs:  ready ──lease──▶ leased ──settle──▶ deleted          + one audit record per attempt
--                              ├─ failed ──▶ deferred ──due──▶ ready
--                              ├─ buried ──▶ dead_letters
--                              └─ lane is free ──▶ inbox (a note) ──admit──▶ the lane's next run
--
-- A delivery is one event for one subscription. A run is up to 200 deliveries of one subscription that are leased
-- together: the engine writes one row per run and, at the end, one audit record per attempt, but nothing else per delivery.
-- A lane is all deliveries of one subscription with the same ordering key. The unique index runs_lane allows one run per
-- lane, so the order within a lane does not depend on timing.
--
-- Publishers only insert. A single transaction at a time (admit) moves lanes, so publishers wait for nobody. No wake-up is
-- lost: a statement that frees a lane leaves a note in the inbox, and admit deletes that note only together with sending
-- out the lane's next run, or when the lane is empty.
--
-- The other parts of the schema:
--   02_ids             event ids and UUIDs, also after a failover
--   03_subscriptions   who wants which events, and the rules that route them
--   04_publish         storing events and the deliveries they cause
--   05_admit           moving deliveries through lanes and gates
--   06_states          what state a delivery or an event is in
--   07_lists           where a list finds its next event
--   08_webhooks        endpoints, secrets, exchanges, and the numbers of deliveries in a lane
--   09_replays         delivering again on request
--   10_memory          queues that live in the memory of one process
--   11_queues          depth, backpressure, counters, checkpoints
--   12_retention       how long things are kept, and what was removed
--   13_keys            API keys and the admin log
--   14_views           views for people and reports
--   15_repair          what operators do to deliveries
--
-- Advisory locks have numbers, so that no two features share one. The name of the schema is a part of each lock.
--   lock    0: migrate.ts              one process migrates
--   lock 7001: 05_admit.sql, admit-statements.ts  one transaction moves lanes; a drain, a change of key_concurrency and a memory queue
--                                      that moves into the database wait for it
--   lock 7002: queue-statements.ts     one process measures the queues
--   lock 7003: 02_ids.sql              one session moves the id sequences after a promotion
--   lock 7004: create-replay.ts        one caller creates a replay; the replay's id is a part of this lock

-- The only clock. Tests replace its body. The planner can use statement_timestamp() in index scans.
create function __schema__.clock() returns timestamptz
  language sql stable as 'select statement_timestamp()';

-- How many tokens a bucket holds now, when it refills at per_second and holds at most one second's worth.
-- If the clock stepped back a little, no tokens are taken out. If the bucket was last filled in what is now the future, its
-- true age is unknown and it counts as full: otherwise it would stay empty until the clock has caught up.
create function __schema__.tokens_now(tokens double precision, refilled_at timestamptz, per_second double precision)
  returns double precision language sql stable as $$
  select least(greatest(per_second, 1), case
    when refilled_at > __schema__.clock() + interval '1 s' then greatest(per_second, 1)
    else greatest(tokens, 0) + per_second * greatest(date_part('epoch', __schema__.clock() - refilled_at), 0)
  end)
$$;


-- Events ------------------------------------------------------------------------------------------------------------------

-- What was published. An event never changes, except that a purge erases its contents.
create table __schema__.events (
  id bigint primary key,
  type text,
  title text,
  description text,
  tags text[],
  payload text not null,               -- the bytes as they came: jsonb would change them
  ordering_key text,
  concurrency_key text,
  version text,
  source json,
  "timestamp" timestamptz,
  correlation_id text,
  causation_id text,
  traceparent text,
  run_at timestamptz,
  expires_at timestamptz,
  max_retries smallint,
  attributes json,                     -- CloudEvents attributes that have no column here
  owed int[] not null,                 -- the subscriptions it was routed to: one delivery each
  created_at timestamptz not null,
  purged_at timestamptz                -- when its payload and texts were erased
);
create index events_type on __schema__.events (type, id);
create index events_ordering_key on __schema__.events (ordering_key, id) where ordering_key is not null;
-- A GIN index has no order. With the block of 8,192 ids that an event is in as a second key, a list can skip blocks in
-- which no event has the tag. Readers go through the pending list, so it is kept short: 5 ms instead of 20, and a publisher
-- that has to merge it stops for a third of the time.
create index events_tags on __schema__.events using gin (tags, (array[id >> 13])) with (gin_pending_list_limit = 1024)
  where tags is not null;
-- Events that no subscription wanted: they have no audit record to be found by.
create index events_unrouted on __schema__.events (id) where owed = '{}';

-- Keys by which callers repeat a publish safely: the second event with a key is not stored.
create table __schema__.idempotency_keys (
  scope text not null,                 -- keys of different scopes never meet
  key text not null,
  event_id bigint not null,
  fingerprint bytea not null,          -- of the event: another event with the same key is a conflict
  created_at timestamptz not null,
  primary key (scope, key)
);
create index idempotency_keys_created_at on __schema__.idempotency_keys (created_at);

-- An event as a document, for dead letters. It is built as json, not jsonb, so that the payload keeps its bytes.
create function __schema__.event_document(e __schema__.events) returns json language sql stable as $$
  select json_build_object(
    'id', e.id, 'type', e.type, 'title', e.title, 'description', e.description, 'tags', e.tags,
    'payload', e.payload::json, 'ordering_key', e.ordering_key, 'concurrency_key', e.concurrency_key,
    'version', e.version, 'source', e.source, 'timestamp', e."timestamp", 'correlation_id', e.correlation_id,
    'causation_id', e.causation_id, 'traceparent', e.traceparent, 'run_at', e.run_at,
    'expires_at', e.expires_at, 'max_retries', e.max_retries, 'attributes', e.attributes, 'created_at', e.created_at)
$$;


-- The fields of an event that few events have, as one JSON text, so that 500 plain events are read as five values each and not
-- as nineteen. Null: the event has none of them. The planner puts the body in the place of the call, so the function costs nothing.
create function __schema__.rare_fields(e __schema__.events) returns text language sql stable as $$
  select case when num_nonnulls(e.title, e.description, e.tags, e.concurrency_key, e.version, e.source, e."timestamp",
      e.correlation_id, e.causation_id, e.traceparent, e.run_at, e.expires_at, e.max_retries, e.attributes) > 0
    then json_build_array(e.title, e.description, e.tags, e.concurrency_key, e.version, e.source, e."timestamp",
      e.correlation_id, e.causation_id, e.traceparent, e.run_at, e.expires_at, e.max_retries, e.attributes)::text
  end
$$;


-- What waits --------------------------------------------------------------------------------------------------------------

-- What publishers and settlements leave for admit. A row is one of two things:
--   arrivals   deliveries that must enter a lane or pass a gate: event_ids and arrays of the same length beside it
--   a note     that these lanes or gates may have room: event_ids is null
-- All deliveries that one publishing call owes to one subscription are one row, in the order of the call, so that no limit
-- of an admission can cut between them; a call of more than 1,000 events makes several rows with rising ids. An array that
-- is null means that no delivery of the row has that field.
-- `xid` lets admit find rows of transactions that commit late. It is the first column, so that it is drawn before the id.
create table __schema__.inbox (
  xid xid8 not null default pg_current_xact_id(),
  id bigint generated always as identity,
  subscription int not null,
  event_ids bigint[],
  ordering_keys text[],
  concurrency_keys text[],
  tag_lists text[],
  expires_ats timestamptz[],
  max_failures smallint[],
  attempts int[],
  positions bigint[],                  -- of a note: the last position that each free lane has used
  again_as bigint,                     -- of a delivery that enters a second time: an event id drawn for its new place
  primary key (xid, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
create index inbox_id on __schema__.inbox (id);

-- Deliveries that wait behind the run of their lane, in chunks of deliveries that differ only in their event.
create table __schema__.lane_queue (
  subscription int not null,
  ordering_key text not null,
  position bigint not null,
  event_ids bigint[] not null,
  concurrency_key text,
  tags text[],
  expires_at timestamptz,
  max_failures smallint,
  attempts int not null default 0,
  primary key (subscription, ordering_key, position)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
create index lane_queue_expires_at on __schema__.lane_queue (expires_at) where expires_at is not null;

-- The number of an admission: the upper bits of the positions that it gives out in lanes.
create sequence __schema__.admissions as bigint minvalue 1;

-- An era is the time since the server last crashed. The table is unlogged, so a crash empties it and admit writes a new id.
-- Admit commits asynchronously: a crash may undo an admission whose caller remembers it, and the new era tells that caller.
create unlogged table __schema__.era (
  id uuid not null
);


-- Runs --------------------------------------------------------------------------------------------------------------------

-- What a run waits for, or that a worker has it.
create type __schema__.run_state as enum (
  'ready',      -- can be leased
  'leased',
  'deferred',   -- due later: a retry, a snooze, a delayed event without a lane
  'delayed',    -- due later, and enters its lane only then
  'held',       -- arrived while its queue drains; enters its lane when the queue is resumed
  'gated',      -- waits for room under its concurrency key; a note in the inbox tells admit to look at that gate
  'blocked'     -- its lane stopped at a buried delivery until an operator decides
);

-- Deliveries that can be leased, are leased, or wait for a time, a gate or an operator. A settlement deletes them.
create table __schema__.runs (
  id bigint generated always as identity primary key,
  subscription int not null,
  state __schema__.run_state not null,
  event_ids bigint[] not null,
  first_id bigint not null,            -- its age: the run with the lowest goes first, also after a retry
  several boolean generated always as (cardinality(event_ids) > 1) stored,  -- for indexes: event_ids changes too often
  ordering_key text,
  position bigint,                     -- in its lane: the lane goes on with the next higher position in lane_queue
  concurrency_key text,
  tags text[],
  due_at timestamptz,
  expires_at timestamptz,
  max_failures smallint,
  attempts int not null default 0,     -- of its first delivery: no other delivery of a run can have been attempted
  failures int not null default 0,
  suspect boolean not null default false,  -- it was leased when its worker vanished: it is leased alone until it succeeds
  -- The lease. The token stays after the lease was taken back: a late settlement counts until another worker has the lease.
  token bigint,
  worker int,
  leased_at timestamptz,
  leased_until timestamptz,
  lease_ms int,                        -- for how long the lease was given, or last renewed
  granted smallint,                    -- how many deliveries from the front the worker may attempt
  begun bigint[],                      -- the events whose attempt has begun; the others of the run are still waiting
  cancelled bigint[],                  -- the events that an operator wants stopped: a heartbeat tells the worker
  blocked_by bigint,                   -- the buried event that a blocked lane waits for
  -- A run that no statement would ever find must not exist: never due, at no gate, or leased for ever.
  check (due_at is not null or state not in ('deferred', 'delayed')),
  check (concurrency_key is not null or state <> 'gated'),
  check (leased_until is not null or state <> 'leased')
-- Half of each page stays free: the run of a lane is rewritten at each settlement, and the new version fits the same page.
) with (fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- One run per lane: this index is the promise of order.
create unique index runs_lane on __schema__.runs (subscription, ordering_key)
  where ordering_key is not null and state not in ('delayed', 'held');
-- The others are partial, so that a lease never scans runs that it cannot take.
create index runs_ready on __schema__.runs (subscription, first_id) where state = 'ready';
create index runs_leased on __schema__.runs (subscription, leased_until) where state = 'leased';
create index runs_worker on __schema__.runs (worker) where state = 'leased';
create index runs_cancelled on __schema__.runs (worker) where cancelled is not null;
create index runs_due on __schema__.runs (due_at, first_id) where state in ('deferred', 'delayed');
create index runs_held on __schema__.runs (subscription, id) where state = 'held';
create index runs_held_age on __schema__.runs (subscription, first_id) where state = 'held';
create index runs_expires_at on __schema__.runs (expires_at) where expires_at is not null and state <> 'leased';
-- The rest of a leased lane, which its holder may not attempt, expires like all that waits. The index leaves out event_ids and
-- granted, which change at each settlement.
create index runs_rest_expires_at on __schema__.runs (expires_at)
  where expires_at is not null and state = 'leased' and several and ordering_key is not null;
create index runs_expiring on __schema__.runs (subscription, expires_at) where state = 'ready' and expires_at is not null;
create index runs_gated on __schema__.runs (subscription, concurrency_key, first_id) where state = 'gated';
create index runs_gate on __schema__.runs (subscription, concurrency_key)
  where concurrency_key is not null and state in ('ready', 'leased');
-- Retention keeps a dead letter while a lane waits for it.
create index runs_blocked on __schema__.runs (blocked_by) where state = 'blocked';
-- Runs that wait for a time, a gate or an operator, by age, for lists. A run that succeeds at once is never in these.
create index runs_aside on __schema__.runs (first_id) where state in ('deferred', 'delayed', 'held', 'gated', 'blocked');
create index runs_aside_queue on __schema__.runs (subscription, first_id)
  where state in ('deferred', 'delayed', 'held', 'gated', 'blocked');
-- Runs whose first delivery has failed before, for lists.
create index runs_retried on __schema__.runs (first_id) where failures > 0;
-- Few runs hold most of the waiting deliveries: lists find these without reading a million runs of one delivery.
create index runs_several on __schema__.runs (first_id) where several;

-- Whether a leased lane has deliveries behind those that its holder may attempt, and their time is over.
create function __schema__.has_expired_rest(r __schema__.runs) returns boolean language sql stable as $$
  select r.state = 'leased' and r.several and r.ordering_key is not null
    and r.expires_at is not null and r.expires_at <= __schema__.clock() and r.granted < cardinality(r.event_ids)
$$;

-- One row per tag of each ready run of a pull queue, for leases by tag. Triggers write it, so no statement can forget it.
create table __schema__.ready_tags (
  subscription int not null,
  tag text not null,
  first_id bigint not null,
  run_id bigint not null,
  primary key (subscription, tag, first_id, run_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create function __schema__.keep_ready_tags() returns trigger language plpgsql as $$
begin
  if tg_op <> 'INSERT' and old.state = 'ready' then
    delete from __schema__.ready_tags
    where subscription = old.subscription and tag = any(old.tags) and first_id = old.first_id and run_id = old.id;
  end if;
  if tg_op <> 'DELETE' and new.state = 'ready' then
    insert into __schema__.ready_tags (subscription, tag, first_id, run_id)
    select new.subscription, tag, new.first_id, new.id from unnest(new.tags) as tag;
  end if;
  return null;
end $$;
create trigger ready_tags_insert after insert on __schema__.runs
  for each row when (new.tags is not null and new.state = 'ready')
  execute function __schema__.keep_ready_tags();
create trigger ready_tags_update after update on __schema__.runs
  for each row when (old.tags is not null and (old.state = 'ready' or new.state = 'ready'))
  execute function __schema__.keep_ready_tags();
create trigger ready_tags_delete after delete on __schema__.runs
  for each row when (old.tags is not null and old.state = 'ready')
  execute function __schema__.keep_ready_tags();

-- The tokens left of rate_per_second. Leases of a subscription with a limit wait for each other at this row.
create table __schema__.limits (
  subscription int primary key,
  tokens double precision not null,
  refilled_at timestamptz not null
);


-- What happened -----------------------------------------------------------------------------------------------------------

-- How an attempt ended, or what was done to a delivery without an attempt.
create type __schema__.settlement as enum (
  'completed', 'retried', 'lease_expired', 'snoozed', 'released', 'reset',
  'buried', 'expired', 'cancelled', 'discarded', 'redriven'
);

-- Why a delivery was buried, where code must know. Code never reads `reason`: that text is for people, and users write it.
create type __schema__.burial_cause as enum (
  'finalized',      -- its consumer ended it with errors; that is not a failure
  'lease_expired'   -- its lease ended without a word from its worker
);

-- One record per attempt, and one per action on a delivery without an attempt (expired, redriven …).
-- The newest record of an event and a subscription is the state of that delivery. The view event_log is made of these.
create table __schema__.audit (
  id bigint generated always as identity,
  event_id bigint not null,
  subscription int not null,
  settlement __schema__.settlement not null,
  attempt int not null,                -- attempts begun so far, this one included
  failures int not null default 0,
  worker int,
  token bigint,
  leased_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz not null,
  next_at timestamptz,                 -- when a retry or snooze is due
  status_code smallint,
  execution_ms int,
  reason text,
  cause __schema__.burial_cause        -- only of burials
);
-- With the settlement as a second key, a list skips a million retries without reading their records.
create index audit_event on __schema__.audit (event_id, settlement);
-- Deliveries that ended without success, for lists by status. A dead letter may be pruned before its event, so lists do not ask it.
create index audit_ended on __schema__.audit (settlement, event_id)
  where settlement in ('buried', 'expired', 'cancelled', 'discarded');
create index audit_ended_subscription on __schema__.audit (subscription, settlement, event_id)
  where settlement in ('buried', 'expired', 'cancelled', 'discarded');

-- Attempts that a pull worker has reported as begun. It is a table of its own so that a report does not rewrite the run;
-- in process, the settlement brings the time of the start with it.
create table __schema__.starts (
  event_id bigint not null,
  subscription int not null,
  token bigint not null,
  worker int,
  started_at timestamptz not null,
  primary key (event_id, subscription, token)
);

-- Whether the worker of a run has been silent since it leased the run: no renewal, which would have moved the end of the
-- lease, and no start.
create function __schema__.is_unheard(r __schema__.runs) returns boolean language sql stable as $$
  select r.leased_until = r.leased_at + r.lease_ms * interval '1 ms' and not exists (
    select from __schema__.starts t
    where t.event_id = any(r.event_ids) and t.subscription = r.subscription and t.token = r.token)
$$;

-- Deliveries that failed for good or expired, with copies of the event and the subscription, until they are sent again.
create table __schema__.dead_letters (
  id uuid primary key,
  event_id bigint not null,
  subscription int,                    -- null: no subscription wanted the event
  kind text not null check (kind in ('buried', 'expired')),
  reason text not null,
  cause __schema__.burial_cause,
  attempts int not null,
  failures int not null,
  event_snapshot json not null,
  subscription_snapshot json,
  buried_at timestamptz not null,
  redriven_at timestamptz,
  redriven_by text,
  no bigint generated always as identity,  -- the order of burials, also if the clock stepped back
  purged_at timestamptz                -- as in events: a redrive locks the letter, not the event
);
create index dead_letters_event on __schema__.dead_letters (event_id);
create index dead_letters_subscription on __schema__.dead_letters (subscription, id) where redriven_at is null;
-- A recover goes through the letters of a subscription in the order of events, so that lanes keep their order.
create index dead_letters_delivery on __schema__.dead_letters (subscription, event_id) where redriven_at is null;
create index dead_letters_kind on __schema__.dead_letters (kind, id) where redriven_at is null;

-- Processes that lease.
create table __schema__.workers (
  no int generated always as identity primary key,
  name text not null unique,
  seen_at timestamptz not null
);
-- A worker that was seen in the future shows that the clock was set back.
create index workers_seen_at on __schema__.workers (seen_at);
