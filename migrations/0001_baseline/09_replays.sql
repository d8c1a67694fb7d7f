-- Recover and replay: deliveries that are sent again on request. Each request is a row that any process can go on with: the
-- transaction that sends deliveries also writes how far the replay is.

create table __schema__.replays (
  id uuid primary key,
  subscription int not null,
  kind text not null check (kind in ('recover', 'replay')),
  request json not null,                   -- what the caller asked for
  fingerprint bytea not null,              -- of the request: the same request gets the same replay
  state text not null default 'running' check (state in ('running', 'completed', 'aborted')),
  total bigint not null,                   -- deliveries, as counted at the start
  total_is_estimate boolean not null,
  reached bigint not null,                 -- everything up to this event id is done
  last_id bigint not null,                 -- nothing above this event id is sent: a replay must not meet its own deliveries
  last_letter bigint,                      -- recover: dead letters with a higher number were buried after the request
  done bigint not null default 0,          -- deliveries that were sent again
  skipped bigint not null default 0,       -- deliveries that were still waiting or leased
  removed bigint not null default 0,       -- deliveries whose event retention has removed
  oldest_kept_at timestamptz,              -- if the request names older events than there are: since when events are kept
  rate_per_second double precision,
  tokens double precision not null,
  refilled_at timestamptz not null,
  due_at timestamptz not null,             -- it goes on from here; the replay that has waited longest goes first
  created_at timestamptz not null,
  created_by text not null,
  finished_at timestamptz,
  reason text,                             -- why it was aborted
  last_error text
);
-- Of each subscription one replay goes on at a time: the oldest.
create index replays_running on __schema__.replays (subscription, id) where state = 'running';
create index replays_alike on __schema__.replays (subscription, kind, fingerprint);

-- Whether a replay may go on. No replay waits for as long as ten seconds: a longer wait was written before the clock was set back.
create function __schema__.is_replay_due(due_at timestamptz) returns boolean language sql stable as $$
  select due_at <= __schema__.clock() or due_at > __schema__.clock() + interval '10 s'
$$;

-- Deliveries that a replay has sent again: a webhook numbers each of them anew (lane_numbers.replays).
create table __schema__.replayed (
  event_id bigint not null,
  subscription int not null,
  times int not null,
  replay uuid not null,                    -- the last replay that sent it
  primary key (event_id, subscription)
);
