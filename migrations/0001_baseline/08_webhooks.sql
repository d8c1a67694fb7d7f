-- Webhooks: where requests go, what signs them, what was exchanged, and how deliveries of a lane are numbered.
--
--   endpoints          one row per webhook subscription, with its circuit breaker
--   endpoint_secrets   encrypted: signing secrets, several while they are rotated, and values of headers
--   exchanges          every request and its response
--   lane_counters      the last number that was given out in a lane, and delivered
--   lane_numbers       the number of each delivery: given at its first lease, and kept over retries

create table __schema__.endpoints (
  subscription int primary key,
  url text not null,
  headers jsonb not null default '{}',     -- the subscriber's own, by name; null: the value is in endpoint_secrets
  format text not null check (format in ('standard', 'raw', 'cloudevents', 'cloudevents-binary')),
  rules jsonb not null default '{}',       -- statuses that mean something else than usual
  -- The circuit breaker, shared by all processes. Two more parts of it are columns of subscriptions: the status suspended,
  -- and ramp, which limits the deliveries under way while the endpoint recovers.
  unreachable int not null default 0,      -- failures in a row to reach it at all
  suspended_at timestamptz,
  resumes_as text,                         -- the status before it was suspended: active or draining
  probe_at timestamptz,                    -- when one process tries it next
  probes int not null default 0,           -- probes that failed since it was suspended
  last_error text,
  last_error_at timestamptz
);
create index endpoints_probe_at on __schema__.endpoints (probe_at) where probe_at is not null;

create table __schema__.endpoint_secrets (
  id uuid primary key,
  subscription int not null,
  header text,                             -- the header whose value it is; null: it signs requests
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
  response json,                           -- headers, the first 16 KB of the body, and how many bytes were read
  error_class text,
  error text,
  timings json not null,
  primary key (event_id, subscription, token)
);

create table __schema__.lane_counters (
  subscription int not null,
  ordering_key text not null,
  epoch bigint not null,                   -- when its numbering began: after long idleness or a failover a new epoch begins
  latest bigint not null,                  -- the last number that was given out
  delivered bigint not null default 0,     -- the highest number up to `checked` that was delivered
  checked bigint not null default 0,
  touched_at timestamptz not null,
  -- A promoted standby may lack the last numbers that the lost server gave out: on a new timeline a new epoch begins.
  timeline bigint not null default __schema__.current_timeline(),
  primary key (subscription, ordering_key)
);

create table __schema__.lane_numbers (
  event_id bigint not null,
  subscription int not null,
  replays int not null default 0,          -- how often the delivery had been replayed when it got this number
  ordering_key text not null,
  epoch bigint not null,
  sequence bigint not null,
  audit_id bigint not null,                -- the last audit record at that moment: unlike a time it never goes back
  primary key (event_id, subscription, replays)
);
create unique index lane_numbers_lane on __schema__.lane_numbers (subscription, ordering_key, epoch, sequence);

-- A subscription as dead letters keep it: with its endpoint, without the columns that only the engine reads.
create function __schema__.subscriber_document(s __schema__.subscriptions) returns json language sql stable as $$
  select (to_jsonb(s) - array['conditions', 'key_path', 'ramp', 'handler_seen_at'] || coalesce((
    select jsonb_build_object('url', e.url, 'format', e.format)
    from __schema__.endpoints e
    where e.subscription = s.no), '{}'))::json
$$;
