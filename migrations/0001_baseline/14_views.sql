-- Views, for people, reports, and programs that know an event queue by these names:
--
--   event_log           what happened to each delivery, in up to three entries per attempt
--   event_queue         unfinished events with their status
--   outbox_events       unfinished and failed events, as an outbox table
--   subscribers         subscriptions
--   messages            deliveries
--   dead_letter_queue   dead letters

-- The id of an entry of the log is made of its time, so that it is the same before and after the lease is settled: steps of
-- 256 µs since 2026 (below 2^53 until 2043), then 1,024 places for entries of one statement, then the order within an
-- attempt. It is unique within an event, and nearly always among all events.
create function __schema__.log_id(at timestamptz, event_id bigint, subscription int, step int) returns bigint
  language sql immutable as $$
  select floor((extract(epoch from at) - 1767225600) * 3906.25)::bigint * 4096
    + ((event_id + subscription) & 1023) * 4 + step
$$;

-- The entries that the audit and the starts make. A worker that settles after its lease was taken back was picked only once.
-- A start is known by the worker's own clock, so it is logged no later than its settlement.
create view __schema__.written_log as
  with entry as (
    select a.event_id, a.subscription, a.worker, 0 as step, 'PICKED' as action, null::smallint as status_code,
      null::text as error_message, null::int as execution_time_ms, a.leased_at as created_at, a.leased_at as logged_at
    from __schema__.audit a
    where a.leased_at is not null and not exists (
      select 1 from __schema__.audit b
      where b.event_id = a.event_id and b.subscription = a.subscription and b.token = a.token and b.attempt = a.attempt
        and b.id < a.id)
    union all
    select a.event_id, a.subscription, a.worker, 1, 'STARTED', null, null, null, a.started_at, least(a.started_at, a.finished_at)
    from __schema__.audit a
    where a.started_at is not null and not exists (
      select 1 from __schema__.audit b
      where b.event_id = a.event_id and b.subscription = a.subscription and b.token = a.token and b.attempt = a.attempt
        and b.id < a.id
        and b.started_at is not null)
    union all
    select t.event_id, t.subscription, t.worker, 1, 'STARTED', null, null, null, t.started_at, t.started_at
    from __schema__.starts t
    union all
    select a.event_id, a.subscription, a.worker, 2,
      case a.settlement
        when 'completed' then 'COMPLETED'
        when 'retried' then 'FAILED'
        when 'lease_expired' then 'FAILED'
        when 'buried' then case __schema__.delivery_state(a.settlement, a.cause, false)
          when 'finalized' then 'COMPLETED_WITH_ERRORS' else 'FAILED' end
        when 'snoozed' then 'SNOOZED'
        when 'released' then 'RELEASED'
        when 'reset' then 'RESET'
        when 'expired' then 'EXPIRED'
        when 'cancelled' then 'CANCELLED'
        when 'discarded' then 'DISCARDED'
        when 'redriven' then 'REDRIVEN'
      end,
      a.status_code, case when a.settlement = 'lease_expired' then 'lease expired' else a.reason end, a.execution_ms,
      a.finished_at, a.finished_at
    from __schema__.audit a
  )
  select __schema__.log_id(l.logged_at, l.event_id, l.subscription, l.step) as id, l.event_id, l.subscription,
    w.name as worker_id, l.action, l.status_code, l.error_message, l.execution_time_ms, l.created_at
  from entry l
  left join __schema__.workers w on w.no = l.worker;

-- The same, and a PICKED for each lease that is in force.
create view __schema__.event_log as
  select * from __schema__.written_log
  union all
  select __schema__.log_id(f.leased_at, f.event_id, f.subscription, 0), f.event_id, f.subscription, w.name, 'PICKED', null,
    null, null, f.leased_at
  from __schema__.in_flight f
  left join __schema__.workers w on w.no = f.worker;

-- Unfinished events with their status.
create view __schema__.event_queue as
  select e.id, e.type, e.payload, s.status, s.attempts, e.created_at, s.updated_at
  from (select distinct u.event_id from __schema__.unfinished u) as q
  join __schema__.events e on e.id = q.event_id
  cross join lateral __schema__.event_states(array[q.event_id]) as s;

-- A delivery that has failed for good stays until its dead letter is retried or discarded. It shows no retries left, so a
-- query for work (retry < max_retry) does not find it.
create view __schema__.outbox_events as
  select e.id, e.created_at as create_date, coalesce(e.type, e.title) as name, e.payload, e.ordering_key as group_id,
    case when q.waits then s.retry_count else greatest(s.retry_count, s.max_retries) end as retry,
    s.max_retries as max_retry
  from (
    select o.event_id, bool_or(o.waits) as waits
    from (
      select u.event_id, true as waits from __schema__.unfinished u
      union all
      select l.event_id, false from __schema__.dead_letters l where l.kind = 'buried' and l.redriven_at is null
    ) as o
    group by o.event_id
  ) as q
  join __schema__.events e on e.id = q.event_id
  cross join lateral __schema__.event_states(array[q.event_id]) as s;

-- Subscriptions, with the address of their webhook.
create view __schema__.subscribers as
  select s.id, s.name, s.via, s.types as event_types, s.tags, s.status, s.status not in ('paused', 'deleted') as is_active,
    s.on_exhausted, s.retry, s.timeout_ms, s.max_concurrency, s.rate_per_second, s.created_at, s.updated_at, e.url, e.format
  from __schema__.subscriptions s
  left join __schema__.endpoints e on e.subscription = s.no;

-- When the event of a snapshot was published. It is cut out of the text, because reading a member would decode the whole
-- document, and a payload may hold what text cannot, such as an escaped NUL. created_at is always the last member.
create function __schema__.snapshot_time(snapshot json) returns timestamptz language sql stable as $$
  select substring(snapshot::text from '"created_at" : "([^"]+)"[}]$')::timestamptz
$$;

-- Dead letters.
create view __schema__.dead_letter_queue as
  select l.id,
    __schema__.delivery_id(__schema__.snapshot_time(l.event_snapshot), l.event_id, l.subscription) as message_id,
    l.event_snapshot, l.subscription_snapshot as subscriber_snapshot, l.reason as failure_reason,
    l.buried_at as moved_to_dlq_at, l.redriven_by as manual_retry_by, l.redriven_at as manual_retry_at
  from __schema__.dead_letters l;

-- Deliveries. An unfinished one shows the key of its lane; a finished one the key of the lane it was numbered in, otherwise
-- the key that its subscription would order it by now.
create view __schema__.messages as
  select __schema__.delivery_id(e.created_at, e.id, d.subscription) as id, e.id as event_id, s.id as subscriber_id,
    case when u.event_id is not null then u.ordering_key else coalesce(n.ordering_key, __schema__.lane_key(s.key_path, e)) end
      as ordering_key_value,
    case d.state when 'expired' then 'dlq' else __schema__.delivery_status(d.state, d.failures) end as status,
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
