import { defineStatement } from '../db/database.ts'

export const buryStatement = defineStatement(
  'bury_waiting',
  `with taken as materialized (
    select t.event_id, t.subscription, t.attempts, t.failures, t.stopped_lane
    from __schema__.take_out($1::bigint[], $2, true, $4) as t
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, finished_at, reason)
    select t.event_id, t.subscription, 'buried', t.attempts, t.failures, __schema__.clock(), $3
    from taken t
  ),
  buried as (
    insert into __schema__.dead_letters (id, event_id, subscription, kind, reason, attempts, failures,
      event_snapshot, subscription_snapshot, buried_at)
    select __schema__.uuid_v7(), t.event_id, t.subscription, 'buried', $3, t.attempts, t.failures,
      __schema__.event_document(e), __schema__.subscriber_document(p), __schema__.clock()
    from taken t
    join __schema__.events e on e.id = t.event_id
    join __schema__.subscriptions p on p.no = t.subscription
  )
  select p.name, e.type, t.stopped_lane
  from taken t
  join __schema__.events e on e.id = t.event_id
  join __schema__.subscriptions p on p.no = t.subscription`,
)

export const isWaitingStatement = defineStatement(
  'delivery_waits',
  `select exists (
      select 1 from __schema__.inbox i where i.event_ids @> array[$1::bigint] and i.subscription = $2)
    or exists (
      select 1 from __schema__.lane_queue q where q.event_ids @> array[$1::bigint] and q.subscription = $2)
    or exists (
      select 1 from __schema__.runs r
      where r.event_ids @> array[$1::bigint] and r.subscription = $2 and not (r.state = 'leased' and r.event_ids[1:r.granted] && array[$1::bigint]))`,
)

/** Locks the letter and then the run, as redrive does. */
export const discardStatement = defineStatement(
  'discard_letter',
  `with letter as materialized (
    select d.id, d.event_id, d.subscription
    from __schema__.dead_letters d
    where d.id = $1 and d.redriven_at is null
    for update
  ),
  blocked as materialized (
    select r.id
    from __schema__.runs r
    join letter l on l.event_id = r.blocked_by and l.subscription = r.subscription
    where r.state = 'blocked'
    for update of r
  ),
  resumed as materialized (
    select __schema__.resume_lanes(array_agg(b.id)) from blocked b
  ),
  discarded as (
    delete from __schema__.dead_letters d using letter l where d.id = l.id
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, finished_at, reason)
    select l.event_id, l.subscription, 'discarded', 0, __schema__.clock(), 'discarded by ' || $2
    from letter l
    where l.subscription is not null
  )
  select l.id from letter l cross join resumed`,
)

export const unblockLaneStatement = defineStatement(
  'unblock_lane',
  `with blocked as materialized (
    select r.id, r.subscription, r.blocked_by
    from __schema__.runs r
    where r.subscription = $1 and r.ordering_key = $2 and r.state = 'blocked'
    for update
  ),
  resumed as materialized (
    select __schema__.resume_lanes(array_agg(b.id)) from blocked b
  ),
  discarded as (
    delete from __schema__.dead_letters d
    using blocked b
    where $3 and d.event_id = b.blocked_by and d.subscription = b.subscription and d.redriven_at is null
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, finished_at, reason)
    select b.blocked_by, b.subscription, 'discarded', 0, __schema__.clock(), $4
    from blocked b
    where $3
  )
  select b.blocked_by from blocked b cross join resumed`,
)

export const findBlockingLetterStatement = defineStatement(
  'blocking_letter',
  `select d.id
  from __schema__.runs r
  join __schema__.dead_letters d on d.event_id = r.blocked_by and d.subscription = r.subscription
  where r.subscription = $1 and r.ordering_key = $2 and r.state = 'blocked' and d.redriven_at is null`,
)

export const redriveStatement = defineStatement(
  'redrive',
  `with letter as materialized (
    select d.id, d.event_id, d.subscription, d.attempts
    from __schema__.dead_letters d
    where d.id = any($1::uuid[]) and d.redriven_at is null and d.purged_at is null
    order by d.event_id, d.id
    for update
  ),
  -- Locked, so that the lane stays blocked until we are done.
  blocked as materialized (
    select b.id, b.subscription, b.blocked_by
    from __schema__.runs b
    where b.state = 'blocked' and b.blocked_by in (select l.event_id from letter l)
    order by b.id
    for update
  ),
  again as materialized (
    select l.id, l.event_id, s.no, l.attempts, e.max_retries,
      coalesce(n.ordering_key, __schema__.lane_key(s.key_path, e)) as ordering_key,
      case when s.key_concurrency is not null then e.concurrency_key end as concurrency_key,
      case when s.via = 'pull' then e.tags end as tags,
      l.subscription is null as unrouted,
      b.id as blocked_run
    from letter l
    join __schema__.events e on e.id = l.event_id
    cross join lateral unnest(
      case when l.subscription is null then __schema__.owed_by(e) else array[l.subscription] end) as o(no)
    join __schema__.subscriptions s on s.no = o.no and s.status <> 'deleted'
    left join blocked b on b.subscription = s.no and b.blocked_by = e.id
    -- A delivery stays in the lane in which it was numbered, even if the subscription orders by something else now.
    left join lateral (
      select n.ordering_key from __schema__.lane_numbers n
      where n.event_id = e.id and n.subscription = s.no
      order by n.replays desc
      limit 1
    ) as n on true
  ),
  marked as (
    update __schema__.dead_letters d
    set redriven_at = __schema__.clock(), redriven_by = $2
    where d.id in (select o.id from again o)
  ),
  routed as (
    update __schema__.events e
    set owed = __schema__.owed_by(e)
    where e.id in (select o.event_id from again o where o.unrouted)
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, finished_at, reason)
    select o.event_id, o.no, 'redriven', o.attempts, __schema__.clock(), 'redriven by ' || $2
    from again o
  ),
  entered as materialized (
    select __schema__.enter_again(array_agg((o.event_id, o.no, o.attempts, o.ordering_key, o.concurrency_key, o.tags,
      o.max_retries, o.blocked_run)::__schema__.again))
    from again o
  )
  select o.id, o.event_id, o.no from again o cross join entered order by o.event_id`,
)

export const resetStatement = defineStatement(
  'reset',
  `with held as materialized (
    select r.id, r.subscription, r.event_ids, r.ordering_key, r.concurrency_key, r.tags, r.expires_at, r.max_failures,
      r.attempts, r.failures, r.suspect, r.worker, r.token, r.leased_at,
      r.cancelled, r.ordering_key is not null or cardinality(r.event_ids) = 1 as whole,
      case when $1 = r.event_ids[1] then r.attempts else 0 end + 1 as attempt
    from __schema__.runs r
    where r.state = 'leased' and r.subscription in (select s.no from __schema__.subscriptions s)
      and $1 = any(r.event_ids[1:r.granted]) and $1 = any(r.begun)
    order by r.id
    for update
  ),
  back as (
    update __schema__.runs r
    set state = 'ready', first_id = r.event_ids[1], token = null, leased_at = null, leased_until = null, granted = null, begun = null,
      attempts = case when h.event_ids[1] = $1 then h.attempt else h.attempts end
    from held h
    where r.id = h.id and h.whole
  ),
  shrunk as (
    update __schema__.runs r
    set event_ids = array_remove(r.event_ids, $1), granted = r.granted - 1, begun = array_remove(r.begun, $1)
    from held h
    where r.id = h.id and not h.whole
  ),
  single as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, concurrency_key, tags, expires_at,
      max_failures, attempts, failures, suspect)
    select h.subscription, 'ready', array[$1], $1, h.concurrency_key, h.tags, h.expires_at, h.max_failures,
      h.attempt, 0, h.suspect
    from held h
    where not h.whole
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, worker, token, leased_at,
      finished_at, reason)
    select $1, h.subscription, 'reset', h.attempt, case when h.event_ids[1] = $1 then h.failures else 0 end,
      h.worker, h.token, h.leased_at, __schema__.clock(), $2
    from held h
  )
  select h.subscription, array(
    select u.event_id from unnest(case when h.whole then h.event_ids else array[$1] end) as u(event_id)
    where u.event_id = any(h.cancelled))
  from held h`,
)

/** Only the head of a run can have been attempted. The audit record replaces the one that says when the retry is due. */
export const retryWaitingStatement = defineStatement(
  'retry_waiting',
  `with tried as materialized (
    select r.id, r.state, r.subscription, r.concurrency_key, r.attempts, r.failures
    from __schema__.runs r
    where r.id = any(array(
        select a.id from __schema__.runs a
        where a.state in ('deferred', 'delayed', 'held', 'gated', 'blocked') and a.first_id = $1
        union all
        select b.id from __schema__.runs b where b.subscription = $2 and b.state = 'ready' and b.first_id = $1))
      and r.subscription = $2 and r.event_ids[1] = $1 and r.attempts > 0 and r.state in ('deferred', 'ready', 'gated')
    for update
  ),
  due as (
    update __schema__.runs r
    set state = (case when t.concurrency_key is null then 'ready' else 'gated' end)::__schema__.run_state, due_at = null
    from tried t
    where r.id = t.id and t.state = 'deferred'
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, finished_at, reason)
    select $1, t.subscription, 'redriven', t.attempts, t.failures, __schema__.clock(), 'retried now by ' || $3
    from tried t
    where t.state = 'deferred'
  ),
  gates as (
    insert into __schema__.inbox (subscription, concurrency_keys)
    select t.subscription, array[t.concurrency_key]
    from tried t
    where t.state = 'deferred' and t.concurrency_key is not null
  )
  select t.id from tried t`,
)

/** The subscription with this id, or else this name; a deleted one only if no other has the name. */
export const findSubscriberStatement = defineStatement(
  'find_subscriber',
  `select s.no
  from __schema__.subscriptions s
  where s.id::text = lower($1) or s.name = $1
  order by s.id::text = lower($1) desc, s.status <> 'deleted' desc, s.no desc
  limit 1`,
)
