-- The whole engine in one drawing (ARCHITECTURE.md walks through it):
--
--   publish ──▶ events                                          the facts, never changed
--          ├──▶ runs (ready, or deferred until run_at)          unkeyed deliveries
--          └──▶ inbox ──admit──▶ lane_queue ──admit──▶ runs     keyed deliveries, one run per lane at a time
--
--   runs:  ready ──lease──▶ leased ──settle──▶ gone             + one audit row per attempt
--                              ├─ failed ──▶ deferred ──due──▶ ready
--                              ├─ buried ──▶ dead_letters
--                              └─ lane freed ──▶ inbox (a note) ──admit──▶ the lane's next run
--
-- A run is up to 200 deliveries of one subscription that are leased together. Nothing is written per
-- delivery but its audit row. A run with an ordering key holds its lane: the unique index runs_lane
-- admits one per lane, so order does not depend on anybody's timing.
-- Publishers only insert. Lanes are moved by one transaction at a time (admit), so nobody waits for it
-- and no wake-up can be lost: whoever frees a lane leaves a note in the inbox.

-- The only clock. Tests replace its body; statement_timestamp() lets the planner fold it into index scans.
create function __schema__.clock() returns timestamptz
  language sql stable as 'select statement_timestamp()';

create table __schema__.subscriptions (
  no int generated always as identity (minvalue 0 start 0 maxvalue 2097151) primary key,  -- 21 bits of a delivery id
  id uuid not null unique,
  name text not null,
  via text not null check (via in ('handler', 'pull', 'webhook')),
  status text not null default 'active' check (status in ('active', 'paused', 'draining', 'suspended', 'deleted')),
  types text[] not null default '{}',
  tags text[],                         -- null: whatever its tags; else any of these
  filter json,                         -- what else it asks of an event, as it was given
  conditions jsonb,                    -- the same, as routing reads it
  key_pointer text,                    -- where in the event its ordering key is; null: the event's own counts
  key_path text[],
  on_exhausted text not null default 'skip' check (on_exhausted in ('skip', 'block')),
  retry jsonb not null,
  lease_ms int not null,
  timeout_ms int,
  max_concurrency int,                 -- leased deliveries over the whole fleet
  rate_per_second double precision,    -- leases begun per second over the whole fleet
  key_concurrency int,                 -- leased deliveries per concurrency_key over the whole fleet
  ramp int,                            -- webhooks: leased deliveries over the whole fleet while the endpoint recovers
  -- Its queue (seed 002). Null: no limit, or the usual.
  storage text not null default 'database' check (storage in ('database', 'memory')),
  max_depth int,
  high_watermark int,
  on_full text check (on_full in ('refuse', 'hold')),
  batch_size int,                      -- what a process leases at once, at most
  processing_interval_ms int,          -- and how long it waits until it leases again
  persistence_threshold int,           -- memory queues: how many may be in memory only
  -- While it drains: what has a higher event id waits until it is resumed, at the door or as a run that is not given out.
  -- Whoever has drawn a lower one had a transaction before drain_xid, which must have ended.
  drain_fence bigint,
  drain_xid xid8,
  drained_at timestamptz,
  version int not null default 1,      -- counts its changes, for whoever changes only what he has seen
  handler_seen_at timestamptz,         -- when a process with a handler for it last said so
  created_at timestamptz not null default __schema__.clock(),
  updated_at timestamptz not null default __schema__.clock()
);
-- What publishers have to ask about: hardly ever any.
create index subscriptions_barring on __schema__.subscriptions (no) where drain_fence is not null or storage = 'memory';
create unique index subscriptions_name on __schema__.subscriptions (name) where status <> 'deleted';

-- Where a type goes: one row per pattern. A type a.b.c is looked up as a.b.c, a.b.*, a.* and *.
create table __schema__.routes (
  pattern text not null,
  subscription int not null,
  primary key (pattern, subscription)
);

create table __schema__.event_types (
  type text primary key,
  max_age_ms bigint,
  require_route boolean
);

-- CACHE 1, so that ids follow the order of calls: what one transaction saw committed has a lower id.
create sequence __schema__.event_ids as bigint minvalue 1 cache 1;

create table __schema__.events (
  id bigint primary key,
  type text,
  title text,
  description text,
  tags text[],
  payload text not null,               -- the bytes as they came, not jsonb
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
  attributes json,                     -- what a CloudEvent brought along and has no column
  owed int[] not null,                 -- the subscriptions it was routed to: its deliveries
  created_at timestamptz not null
);
create index events_type on __schema__.events (type, id);
create index events_ordering_key on __schema__.events (ordering_key, id) where ordering_key is not null;
create index events_tags on __schema__.events using gin (tags) where tags is not null;

create table __schema__.idempotency_keys (
  scope text not null,
  key text not null,
  event_id bigint not null,
  fingerprint bytea not null,
  created_at timestamptz not null,
  primary key (scope, key)
);
create index idempotency_keys_created_at on __schema__.idempotency_keys (created_at);

-- What publishers and settles leave for admit: deliveries that must enter a lane or pass a gate, and notes
-- (event_ids is null) that a lane or a gate has room. The xid finds late commits exactly: see admit.
create table __schema__.inbox (
  xid xid8 not null default pg_current_xact_id(),
  id bigint generated always as identity,
  subscription int not null,
  event_ids bigint[],
  ordering_keys text[],
  concurrency_keys text[],
  positions bigint[],                  -- of a note: the last position each freed lane has used
  again_as bigint,                     -- of what comes in again: an event id drawn for its new place
  tags text[],
  expires_at timestamptz,
  max_failures smallint,
  attempts int not null default 0,
  primary key (xid, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Deliveries that wait behind the run of their lane.
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
create sequence __schema__.admissions as bigint minvalue 1;

-- A name for the time since the server last crashed: being unlogged, its one row does not survive a crash. Admit
-- commits asynchronously, so a crash may undo an admission that its caller remembers.
create unlogged table __schema__.era (
  id uuid not null
);

create type __schema__.run_state as enum (
  'ready',      -- can be leased
  'leased',
  'deferred',   -- due later: a retry, a snooze, a delay without a lane
  'delayed',    -- due later, and only then enters its lane
  'gated',      -- waits for room under its concurrency key
  'blocked'     -- its lane stopped at a buried head until an operator decides
);

create table __schema__.runs (
  id bigint generated always as identity primary key,
  subscription int not null,
  state __schema__.run_state not null,
  event_ids bigint[] not null,
  first_id bigint not null,            -- age: the oldest goes first, also after a retry
  several boolean generated always as (cardinality(event_ids) > 1) stored,  -- for indexes: event_ids changes too often
  ordering_key text,
  position bigint,                     -- in its lane: lane_queue goes on after it
  concurrency_key text,
  tags text[],
  due_at timestamptz,
  expires_at timestamptz,
  max_failures smallint,
  attempts int not null default 0,  -- of the first delivery: only a run's head can have been tried
  failures int not null default 0,
  suspect boolean not null default false,  -- was out when its worker vanished: leased alone until it succeeds
  -- The lease. The token stays after a reclaim, so that a late settle still counts until somebody else leases.
  token bigint,
  worker int,
  leased_at timestamptz,
  leased_until timestamptz,
  granted smallint,                    -- how many from the front the holder may attempt
  begun bigint[],                      -- those of them known to have begun; the rest is owned, not in flight
  cancelled bigint[],                  -- those an operator wants stopped: the holder learns it by heartbeat
  blocked_by bigint                    -- the buried event that a blocked lane waits for
-- Half of each page is left free: a lane's run is rewritten at each settlement, and stays on its page.
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
-- Partial indexes: nothing that can't be leased sits where a lease looks.
create index runs_ready on __schema__.runs (subscription, first_id) where state = 'ready';
create index runs_leased on __schema__.runs (subscription, leased_until) where state = 'leased';
create index runs_worker on __schema__.runs (worker) where state = 'leased';
create index runs_due on __schema__.runs (due_at) where state in ('deferred', 'delayed');
create index runs_expires_at on __schema__.runs (expires_at) where expires_at is not null and state <> 'leased';
create index runs_expiring on __schema__.runs (subscription, expires_at) where state = 'ready' and expires_at is not null;
create index runs_gated on __schema__.runs (subscription, concurrency_key, first_id) where state = 'gated';
create index runs_gate on __schema__.runs (subscription, concurrency_key)
  where concurrency_key is not null and state in ('ready', 'leased');
create unique index runs_lane on __schema__.runs (subscription, ordering_key)
  where ordering_key is not null and state <> 'delayed';

-- One row per tag of each ready run of a pull queue, kept by a trigger so that no statement can forget it.
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

create type __schema__.settlement as enum (
  'completed', 'retried', 'lease_expired', 'snoozed', 'released', 'reset',
  'buried', 'expired', 'cancelled', 'discarded', 'redriven'
);

-- One record per attempt, and one per thing done to a delivery without an attempt (expired, redriven …).
-- The newest record of (event, subscription) is the delivery's state; event_log is read from it.
create table __schema__.audit (
  id bigint generated always as identity,
  event_id bigint not null,
  subscription int not null,
  settlement __schema__.settlement not null,
  attempt int not null,           -- attempts begun so far, this one included
  failures int not null default 0,
  worker int,
  token bigint,
  leased_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz not null,
  next_at timestamptz,                 -- when a retry or snooze is due
  status_code smallint,
  execution_ms int,
  reason text
);
create index audit_event on __schema__.audit (event_id);

-- What a pull worker has said to have begun. Apart, so that saying it does not rewrite the lease; in process the
-- settlement brings the time along.
create table __schema__.starts (
  event_id bigint not null,
  subscription int not null,
  token bigint not null,
  worker int,
  started_at timestamptz not null,
  primary key (event_id, subscription, token)
);

create table __schema__.dead_letters (
  id uuid primary key,
  event_id bigint not null,
  subscription int,                    -- null: no subscription wanted it
  kind text not null check (kind in ('buried', 'expired')),
  reason text not null,
  attempts int not null,
  failures int not null,
  event_snapshot json not null,
  subscription_snapshot json,
  buried_at timestamptz not null,
  redriven_at timestamptz,
  redriven_by text
);
create index dead_letters_event on __schema__.dead_letters (event_id);
create index dead_letters_subscription on __schema__.dead_letters (subscription, id) where redriven_at is null;

create table __schema__.workers (
  no int generated always as identity primary key,
  name text not null unique,
  seen_at timestamptz not null
);

-- State of rate_per_second, and the row that limited leases of one subscription queue up for.
create table __schema__.limits (
  subscription int primary key,
  tokens double precision not null,
  refilled_at timestamptz not null
);
