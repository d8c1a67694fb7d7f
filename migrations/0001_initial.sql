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
-- and no wake-up can be lost: whoever frees a lane leaves a note in the inbox, and admit takes a note away only with
-- the lane's next run sent out or nothing left to send.

-- Advisory locks are numbered, so that no two features share one. Beside the number, a lock is of a schema:
--   lock    0: migrate.ts                        one process migrates
--   lock 7001: 0003_admit.sql, 0001_initial.sql, admit.ts    one transaction moves lanes; a drain, a change of key_concurrency and a moved queue wait for it
--   lock 7002: pressure.ts                       one process measures the queues
--   lock 7003: 0001_initial.sql                  one session has the ids jump after a promotion
--   lock 7004: create-replay.ts                  one caller creates a replay; of the schema and the replay

-- The only clock. Tests replace its body; statement_timestamp() lets the planner fold it into index scans.
create function __schema__.clock() returns timestamptz
  language sql stable as 'select statement_timestamp()';

-- What a bucket of a second's worth holds by now. A clock that steps back takes nothing out of it; if it was filled in what
-- is now the future, nobody knows how long ago that was, and it counts as full, or it would stay empty for as long as the step.
create function __schema__.tokens_now(tokens double precision, refilled_at timestamptz, per_second double precision)
  returns double precision language sql stable as $$
  select least(greatest(per_second, 1), case
    when refilled_at > __schema__.clock() + interval '1 s' then greatest(per_second, 1)
    else greatest(tokens, 0) + per_second * greatest(date_part('epoch', __schema__.clock() - refilled_at), 0)
  end)
$$;

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

-- Whether a subscription has a limit over the whole fleet, so that its leases go one after the other.
create function __schema__.is_limited(max_concurrency int, rate_per_second double precision, ramp int) returns boolean
  language sql immutable as $$
  select num_nonnulls(max_concurrency, rate_per_second, ramp) > 0
$$;

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
-- (event_ids is null) that a lane or a gate has room. All deliveries that one call owes to one subscription are one row,
-- in the order of the call and whatever their fields, so no limit of an admission can cut between them; a long call is
-- several rows with rising ids. The arrays below event_ids have one element per event; null: no event has that field.
-- The xid finds late commits exactly, see admit: it stands before the id, so that it is drawn before the id.
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
  positions bigint[],                  -- of a note: the last position each freed lane has used
  again_as bigint,                     -- of what comes in again: an event id drawn for its new place
  primary key (xid, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
create index inbox_id on __schema__.inbox (id);

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
  'held',       -- arrived while its queue drains, and enters its lane once the queue is resumed
  'gated',      -- waits for room under its concurrency key: whoever makes it so leaves a note for that gate
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
  lease_ms int,                        -- how long it was given for, when it was leased or last renewed
  granted smallint,                    -- how many from the front the holder may attempt
  begun bigint[],                      -- those of them known to have begun; the rest is owned, not in flight
  cancelled bigint[],                  -- those an operator wants stopped: the holder learns it by heartbeat
  blocked_by bigint,                   -- the buried event that a blocked lane waits for
  -- What no statement would ever look at does not exist: it would never be due, pass no gate, or be leased for ever.
  check (due_at is not null or state not in ('deferred', 'delayed')),
  check (concurrency_key is not null or state <> 'gated'),
  check (leased_until is not null or state <> 'leased')
-- Half of each page is left free: a lane's run is rewritten at each settlement, and stays on its page.
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
-- Partial indexes: nothing that can't be leased sits where a lease looks.
create index runs_ready on __schema__.runs (subscription, first_id) where state = 'ready';
create index runs_leased on __schema__.runs (subscription, leased_until) where state = 'leased';
create index runs_worker on __schema__.runs (worker) where state = 'leased';
create index runs_due on __schema__.runs (due_at, first_id) where state in ('deferred', 'delayed');
create index runs_held on __schema__.runs (subscription, id) where state = 'held';
create index runs_held_age on __schema__.runs (subscription, first_id) where state = 'held';
create index runs_expires_at on __schema__.runs (expires_at) where expires_at is not null and state <> 'leased';
create index runs_expiring on __schema__.runs (subscription, expires_at) where state = 'ready' and expires_at is not null;
create index runs_gated on __schema__.runs (subscription, concurrency_key, first_id) where state = 'gated';
create index runs_gate on __schema__.runs (subscription, concurrency_key)
  where concurrency_key is not null and state in ('ready', 'leased');
create unique index runs_lane on __schema__.runs (subscription, ordering_key)
  where ordering_key is not null and state not in ('delayed', 'held');

-- Queues that have held runs: written by admit alone, so that an admission need not look for them.
create table __schema__.holding_queues (
  subscription int primary key
);

-- Whether a queue holds a run that may enter its lane: any, once the queue is resumed; while it drains, one of before the
-- drain. Looks at the oldest held run alone, so that 100,000 others cost nothing.
create function __schema__.has_enterable(queue int, fence bigint) returns boolean language sql stable as $$
  select coalesce((
    select min(r.first_id) <= coalesce(fence, 9223372036854775807)
    from __schema__.runs r
    where r.subscription = queue and r.state = 'held'), false)
$$;

-- A run that carries a concurrency key passes that key's gate, whatever key_concurrency has become since the run was made.
-- A change of key_concurrency leaves notes for all gates that something waits at: there may be room now. It waits for an
-- admission under way, which judges gates by the option as it was, and what that sends to a gate cannot be seen before.
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

-- Why a delivery was buried, where that makes a difference to us. A reason is for people: anybody may write anything there.
create type __schema__.burial_cause as enum (
  'finalized',      -- its consumer ended it with errors, which is no failure
  'lease_expired'   -- a reclaim did it, not the worker's word
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
  reason text,
  cause __schema__.burial_cause        -- of some burials
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
  cause __schema__.burial_cause,
  attempts int not null,
  failures int not null,
  event_snapshot json not null,
  subscription_snapshot json,
  buried_at timestamptz not null,
  redriven_at timestamptz,
  redriven_by text,
  no bigint generated always as identity   -- the order of burials, whatever the clock said
);
create index dead_letters_event on __schema__.dead_letters (event_id);
create index dead_letters_subscription on __schema__.dead_letters (subscription, id) where redriven_at is null;

create table __schema__.workers (
  no int generated always as identity primary key,
  name text not null unique,
  seen_at timestamptz not null
);
create index workers_seen_at on __schema__.workers (seen_at);   -- is one in the future? The clock was set back

-- State of rate_per_second, and the row that limited leases of one subscription queue up for.
create table __schema__.limits (
  subscription int primary key,
  tokens double precision not null,
  refilled_at timestamptz not null
);

-- Failover. A standby that is promoted may lack the last commits of the server that is gone, and with them the numbers
-- that these gave out. A promotion begins a new timeline, a restart after a crash does not: so the first that draws a
-- number on a new timeline first moves the sequences beyond all that can have been given out before.
--
-- The timeline is kept in a sequence, like the numbers themselves: what is set there is seen at once, in every
-- transaction and at every isolation level, and no rollback takes it back.
create sequence __schema__.id_timeline as bigint minvalue 1;

create function __schema__.current_timeline() returns bigint language sql volatile as $$
  select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint   -- changes at the promotion itself
$$;
select setval('__schema__.id_timeline', __schema__.current_timeline());

-- Whoever gives out numbers that others remember calls this first: event ids, and numbers of workers and subscriptions.
create function __schema__.follow_promotion() returns void language plpgsql as $$
begin
  if __schema__.current_timeline() <> (select t.last_value from __schema__.id_timeline t) then
    perform __schema__.jump_ids();
  end if;
end $$;

-- One at a time, and the timeline last: until it is set everybody who wants a number comes here. The lock is let go at
-- once, as what it guards is not undone: a publisher's transaction may stay open for long.
-- Whoever may publish may have the ids jump, hence `security definer`.
create function __schema__.jump_ids() returns void language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
  promotions bigint;
begin
  perform pg_advisory_lock(hashtextextended('__schema__', 7003));
  begin
    select __schema__.current_timeline() - t.last_value into promotions from __schema__.id_timeline t;
    if promotions <> 0 then
      -- Restored elsewhere, the timeline may be a lower one, or a much higher one: then it says nothing of how many.
      promotions := case when promotions between 1 and 100 then promotions else 1 end;
      perform setval('__schema__.event_ids', nextval('__schema__.event_ids') + (promotions << 28));
      -- Never more than half of what is left: a sequence at its end would refuse the jump, and all publishing with it.
      perform setval('__schema__.workers_no_seq', s.last_value + least(promotions << 16, (2147483647 - s.last_value) / 2))
      from __schema__.workers_no_seq s;
      perform setval('__schema__.subscriptions_no_seq', s.last_value + least(promotions << 10, (2097151 - s.last_value) / 2))
      from __schema__.subscriptions_no_seq s;
      perform setval('__schema__.id_timeline', __schema__.current_timeline());
    end if;
  exception when query_canceled or others then
    perform pg_advisory_unlock(hashtextextended('__schema__', 7003));
    raise;
  end;
  perform pg_advisory_unlock(hashtextextended('__schema__', 7003));
end $$;

-- The timeline whose jump was told. One row.
create table __schema__.told_timeline (
  timeline bigint not null,
  told_at timestamptz not null
);
insert into __schema__.told_timeline (timeline, told_at) values (__schema__.current_timeline(), __schema__.clock());
