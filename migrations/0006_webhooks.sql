-- Webhooks: where to send, what to sign with, what was sent, and how lanes are numbered.
--
--   endpoints          one row per webhook subscription, with its breaker
--   endpoint_secrets   what requests are signed with, sealed; several while they are rotated
--   exchanges          every request and what came of it
--   lane_counters      how far a lane has been numbered, and delivered
--   lane_numbers       the number of each delivery: given at its first lease, and kept
--   replayed           deliveries that were sent once more on demand: they get a number of their own

create table __schema__.endpoints (
  subscription int primary key,
  url text not null,
  headers jsonb not null default '{}',
  format text not null check (format in ('standard', 'raw', 'cloudevents', 'cloudevents-binary')),
  rules jsonb not null default '{}',       -- what statuses mean, where they mean something else than usual
  -- The breaker, one for all dispatchers. Suspended is a status of the subscription, and so is how many may be
  -- under way while it recovers (subscriptions.ramp).
  unreachable int not null default 0,      -- failures in a row to reach it at all
  suspended_at timestamptz,
  resumes_as text,                         -- what it was before: active or draining
  probe_at timestamptz,                    -- when it is tried next, by one of them
  probes int not null default 0,           -- those that failed since it was suspended
  last_error text,
  last_error_at timestamptz
);
create index endpoints_probe_at on __schema__.endpoints (probe_at) where probe_at is not null;

create table __schema__.endpoint_secrets (
  id uuid primary key,
  subscription int not null,
  sealed text not null,
  created_at timestamptz not null,
  expires_at timestamptz                   -- null: the current one
);
create index endpoint_secrets_subscription on __schema__.endpoint_secrets (subscription);

create table __schema__.exchanges (
  event_id bigint not null,
  subscription int not null,
  token bigint not null,                   -- of the lease that the attempt was made under
  attempt int not null,
  started_at timestamptz not null,
  request json not null,                   -- url, headers, SHA-256 and length of the body
  status_code smallint,
  response json,                           -- headers, the first 16 KB, and how many bytes were read
  error_class text,
  error text,
  timings json not null,
  primary key (event_id, subscription, token)
);

create table __schema__.lane_counters (
  subscription int not null,
  ordering_key text not null,
  epoch bigint not null,                   -- when its numbering began: it begins anew when it was idle for long
  latest bigint not null,                  -- the last number given
  delivered bigint not null default 0,     -- the highest number up to `checked` that was delivered
  checked bigint not null default 0,
  touched_at timestamptz not null,
  primary key (subscription, ordering_key)
);

create table __schema__.lane_numbers (
  event_id bigint not null,
  subscription int not null,
  replays int not null default 0,          -- how often it had been replayed when it got this number
  ordering_key text not null,
  epoch bigint not null,
  sequence bigint not null,
  numbered_at timestamptz not null,
  primary key (event_id, subscription, replays)
);
create unique index lane_numbers_lane on __schema__.lane_numbers (subscription, ordering_key, epoch, sequence);

create table __schema__.replayed (
  event_id bigint not null,
  subscription int not null,
  times int not null,
  replay uuid not null,                    -- the last job that did it
  primary key (event_id, subscription)
);

-- Whatever changes what a subscription is: its version goes up, and every process hears of it, so that no statement can
-- forget to say so. A row of its endpoint or its secrets is a part of it.
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

-- A subscription as dead letters keep it: with where it was sent, without what only routing reads.
create function __schema__.subscriber_document(s __schema__.subscriptions) returns json language sql stable as $$
  select (to_jsonb(s) - array['conditions', 'key_path', 'ramp', 'handler_seen_at'] || coalesce((
    select jsonb_build_object('url', e.url, 'format', e.format) from __schema__.endpoints e where e.subscription = s.no), '{}'))::json
$$;

-- With where their webhooks go.
create or replace view __schema__.subscribers as
  select s.id, s.name, s.via, s.types as event_types, s.tags, s.status, s.status not in ('paused', 'deleted') as is_active,
    s.on_exhausted, s.retry, s.timeout_ms, s.max_concurrency, s.rate_per_second, s.created_at, s.updated_at, e.url, e.format
  from __schema__.subscriptions s
  left join __schema__.endpoints e on e.subscription = s.no;
