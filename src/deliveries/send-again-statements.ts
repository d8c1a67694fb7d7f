import { defineStatement } from '../db/database.ts'

export const lockEventsStatement = defineStatement(
  'lock_replayed_events',
  'select e.id from __schema__.events e where e.id = any($1::bigint[]) order by e.id for no key update',
)

export const lockLettersStatement = defineStatement(
  'lock_replayed_letters',
  `select d.id
  from __schema__.dead_letters d
  where d.subscription = $1 and d.redriven_at is null and d.event_id = any($2::bigint[])
  order by d.event_id, d.id
  for update`,
)

export const sendAgainStatement = defineStatement(
  'send_again',
  `with kept as materialized (
    select e.id as event_id, s.no, e.max_retries, s.no <> all(e.owed) as is_new,
      -- what is recovered stays in the lane in which it was numbered
      coalesce(case when $3 = 'recover' then n.ordering_key end, __schema__.lane_key(s.key_path, e)) as ordering_key,
      case when s.key_concurrency is not null then e.concurrency_key end as concurrency_key,
      case when s.via = 'pull' then e.tags end as tags,
      coalesce(a.attempts, 0) as attempts,
      (s.no <> all(e.owed) or a.newest in ('completed', 'buried', 'expired', 'cancelled', 'discarded'))
        and ($3 = 'replay' or exists (
          select 1 from __schema__.dead_letters d
          where d.subscription = $1 and d.event_id = e.id and d.redriven_at is null
            and d.event_id = any($2))) as is_sent
    from __schema__.events e
    join __schema__.subscriptions s on s.no = $1
    left join lateral (
      select (array_agg(a.settlement order by a.id desc))[1] as newest, max(a.attempt) as attempts
      from __schema__.audit a
      where a.event_id = e.id and a.subscription = $1
    ) as a on true
    left join lateral (
      select n.ordering_key from __schema__.lane_numbers n
      where n.event_id = e.id and n.subscription = $1
      order by n.replays desc
      limit 1
    ) as n on true
    where e.id = any($2::bigint[]) and e.purged_at is null
  ),
  -- Locked, so that the lane stays blocked until we are done.
  blocked as materialized (
    select b.id, b.blocked_by
    from __schema__.runs b
    where b.state = 'blocked' and b.subscription = $1 and b.blocked_by = any($2)
    order by b.id
    for update
  ),
  again as materialized (
    select k.event_id, k.no, k.max_retries, k.is_new, k.ordering_key, k.concurrency_key, k.tags, k.attempts,
      b.id as blocked_run
    from kept k
    left join blocked b on b.blocked_by = k.event_id
    where k.is_sent
  ),
  marked as (
    update __schema__.dead_letters d
    set redriven_at = __schema__.clock(), redriven_by = $5
    where d.subscription = $1 and d.redriven_at is null and d.event_id = any(array(select s.event_id from again s))
  ),
  owed as (
    update __schema__.events e
    set owed = array(select o.no from unnest(e.owed || $1::int) as o(no) order by o.no)
    where e.id = any(array(select s.event_id from again s where s.is_new))
  ),
  counted as (
    insert into __schema__.replayed as p (event_id, subscription, times, replay)
    select s.event_id, s.no, 1, $4::uuid from again s where $3 = 'replay'
    on conflict (event_id, subscription) do update set times = p.times + 1, replay = excluded.replay
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, finished_at, reason)
    select s.event_id, s.no, 'redriven', s.attempts, __schema__.clock(),
      case when $3 = 'replay' then 'replayed by ' else 'recovered by ' end || $5
    from again s
  ),
  entered as materialized (
    select __schema__.enter_again(array_agg((s.event_id, s.no, s.attempts, s.ordering_key, s.concurrency_key, s.tags,
      s.max_retries, s.blocked_run)::__schema__.again))
    from again s
  )
  select (select count(*)::int from kept), (select count(*)::int from again) from entered`,
)

/** Without the name of a process: also this process looks for work now. */
export const wakeStatement = defineStatement(
  'wake_for_replay',
  `select pg_notify('posthorn.' || btrim('__schema__', '"'), '')`,
)
