-- Recover and replay: what is delivered once more because somebody asked for it. Each call is a row that any process
-- can go on with: what is sent, and how far that is, are written by the same transaction.

create table __schema__.replays (
  id uuid primary key,
  subscription int not null,
  kind text not null check (kind in ('recover', 'replay')),
  request json not null,                   -- what was asked for
  fingerprint bytea not null,              -- of the request: whoever asks for the same gets the same replay
  state text not null default 'running' check (state in ('running', 'completed', 'aborted')),
  total bigint not null,                   -- deliveries, as counted when it was made
  total_is_estimate boolean not null,
  reached bigint not null,                 -- all that is asked for up to this event is dealt with
  last_id bigint not null,                 -- and nothing beyond this one, so it never meets what it caused itself
  last_letter bigint,                      -- recover: dead letters with a higher number were buried later and do not count
  done bigint not null default 0,          -- sent once more
  skipped bigint not null default 0,       -- waiting or leased already
  removed bigint not null default 0,       -- gone: retention has removed the event
  oldest_kept_at timestamptz,              -- where it asks for older events than there are: from when on they are kept
  rate_per_second double precision,
  tokens double precision not null,
  refilled_at timestamptz not null,
  due_at timestamptz not null,             -- not before, and the one that waits longest goes first
  created_at timestamptz not null,
  created_by text not null,
  finished_at timestamptz,
  reason text,                             -- why it was aborted
  last_error text
);
-- One of a subscription goes on at a time, the oldest.
create index replays_running on __schema__.replays (subscription, id) where state = 'running';
create index replays_alike on __schema__.replays (subscription, kind, fingerprint);

-- Recovering goes along the events, so that lanes keep their order.
create index dead_letters_delivery on __schema__.dead_letters (subscription, event_id) where redriven_at is null;
