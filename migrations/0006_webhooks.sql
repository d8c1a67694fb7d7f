-- Webhooks: where to send, what to sign with, what was sent, and how lanes are numbered.
--
--   endpoints          one row per webhook subscription, with its breaker
--   endpoint_secrets   what is sealed: what requests are signed with, several while they are rotated, and values of headers
--   exchanges          every request and what came of it
--   lane_counters      how far a lane has been numbered, and delivered
--   lane_numbers       the number of each delivery: given at its first lease, and kept
--   replayed           deliveries that were sent once more on demand: they get a number of their own

create table __schema__.endpoints (
  subscription int primary key,
  url text not null,
  headers jsonb not null default '{}',     -- the subscriber's own, by name; null: the value is sealed, in endpoint_secrets
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
  header text,                             -- whose value it is; null: requests are signed with it
  sealed text not null,
  created_at timestamptz not null,
  expires_at timestamptz                   -- null: the current one
);
create index endpoint_secrets_subscription on __schema__.endpoint_secrets (subscription);
create unique index endpoint_secrets_header on __schema__.endpoint_secrets (subscription, header) where header is not null;

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
  audit_id bigint not null,                -- the last audit record that existed when it was numbered: times can go back
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

-- Deliveries as seed 004 has them. Each has the key of the lane that it waits in; a finished one that of the lane it was
-- numbered in, or else what its subscription orders it by now.
create view __schema__.messages as
  select __schema__.delivery_id(e.created_at, e.id, d.subscription) as id, e.id as event_id, s.id as subscriber_id,
    case when u.event_id is not null then u.ordering_key else coalesce(n.ordering_key, __schema__.lane_key(s.key_path, e)) end
      as ordering_key_value,
    case d.state
      when 'leased' then 'delivering'
      when 'completed' then 'delivered'
      when 'cancelled' then 'cancelled'
      when 'waiting' then case when d.failures > 0 then 'failed' else 'pending' end
      else 'dlq'
    end as status,
    d.attempts, d.failures as retry_count, d.next_at as next_retry_at, d.leased_at as locked_at, w.name as worker_id,
    d.last_error, e.created_at, d.updated_at
  from __schema__.events e
  cross join lateral __schema__.delivery_states(array[e.id]) as d
  join __schema__.subscriptions s on s.no = d.subscription
  left join __schema__.unfinished_lanes u on u.event_id = e.id and u.subscription = d.subscription
  left join lateral (
    select n.ordering_key from __schema__.lane_numbers n
    where n.event_id = e.id and n.subscription = d.subscription
    order by n.replays desc
    limit 1
  ) as n on true
  left join __schema__.workers w on w.no = d.worker;

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
