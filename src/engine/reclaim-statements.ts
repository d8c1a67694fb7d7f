import { defineStatement } from '../db/database.ts'

/** The row lock is the guard: a run that was settled or renewed meanwhile no longer matches, or is locked. */
export const findEndedLeasesStatement = defineStatement(
  'find_expired',
  `select r.id, r.token, r.subscription, s.name, w.name,
    array(
      select u.event_id from unnest(r.event_ids) with ordinality as u(event_id, place)
      where u.event_id = any(r.begun) order by u.place),
    array(
      select e.type from unnest(r.event_ids) with ordinality as u(event_id, place)
      join __schema__.events e on e.id = u.event_id
      where u.event_id = any(r.begun) order by u.place),
    r.failures, r.max_failures, s.retry, case when s.on_exhausted = 'block' then r.ordering_key end,
    array(select u.event_id from unnest(r.event_ids) as u(event_id) where u.event_id = any(r.cancelled))
  from __schema__.runs r
  join __schema__.subscriptions s on s.no = r.subscription
  left join __schema__.workers w on w.no = r.worker
  where r.state = 'leased' and r.leased_until < __schema__.clock()
  order by r.leased_until
  limit $1
  for update of r skip locked`,
)

/**
 * A run of several deliveries without a lane becomes one suspect run per delivery; a run of one, or of a lane, stays as it is. The
 * token stays, so that a worker that was only slow can still settle until another worker has leased; `begun` says which attempts
 * are already counted.
 */
export const takeBackStatement = defineStatement(
  'take_back',
  `with expired as materialized (
    select r.id, r.subscription, r.event_ids, r.ordering_key, r.concurrency_key, r.tags, r.expires_at, r.max_failures,
      r.attempts, r.failures, r.token, r.worker, r.leased_at, r.granted
    from __schema__.runs r
    where r.id = any($1::bigint[]) and r.state = 'leased'
  ),
  charged as materialized (
    select c.run_id, c.event_id, c.failures,
      case when c.event_id = e.event_ids[1] then e.attempts else 0 end + 1 as attempt
    from unnest($2::bigint[], $3::bigint[], $4::int[]) as c(run_id, event_id, failures)
    join expired e on e.id = c.run_id
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, worker, token, leased_at,
      finished_at, next_at, reason)
    select c.event_id, e.subscription, 'lease_expired', c.attempt, c.failures, e.worker, e.token, e.leased_at,
      __schema__.clock(), __schema__.clock(), 'lease expired'
    from charged c
    join expired e on e.id = c.run_id
  ),
  tallied as (
    insert into __schema__.queue_tallies (subscription, processed, errors, timed, execution_ms)
    select e.subscription, 0, count(*), 0, 0
    from charged c
    join expired e on e.id = c.run_id
    group by e.subscription
  ),
  apart as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, concurrency_key, tags, expires_at,
      max_failures, attempts, failures, suspect, token, worker, granted, begun)
    select e.subscription, 'ready', array[u.event_id], u.event_id, e.concurrency_key, e.tags, e.expires_at,
      e.max_failures, coalesce(c.attempt, 0), coalesce(c.failures, 0), true, e.token, e.worker, 1,
      case when c.event_id is not null then array[c.event_id] end
    from expired e
    cross join lateral unnest(e.event_ids) as u(event_id)
    left join charged c on c.run_id = e.id and c.event_id = u.event_id
    where e.ordering_key is null and cardinality(e.event_ids) > 1
  ),
  gone as (
    delete from __schema__.runs r
    using expired e
    where r.id = any($1) and r.id = e.id and e.ordering_key is null and cardinality(e.event_ids) > 1
  )
  update __schema__.runs r
  set state = 'ready', first_id = r.event_ids[1], suspect = true, leased_at = null, leased_until = null,
    begun = case when c.event_id is not null then array[c.event_id] end,
    attempts = coalesce(c.attempt, e.attempts), failures = coalesce(c.failures, e.failures)
  from expired e
  left join charged c on c.run_id = e.id and c.event_id = e.event_ids[1]
  where r.id = any($1) and r.id = e.id and not (e.ordering_key is null and cardinality(e.event_ids) > 1)`,
)

/**
 * Ends deliveries whose time is over. All deliveries of a run or a chunk expire at the same time: publish and admit never mix
 * them. Of a leased lane, the deliveries behind those that its holder may attempt expire.
 */
export const expireStatement = defineStatement(
  'expire',
  `with expired_runs as materialized (
    select r.id
    from __schema__.runs r
    where r.expires_at <= __schema__.clock() and r.state <> 'leased'
    order by r.expires_at
    limit $1
    for update skip locked
  ),
  expired_rests as materialized (
    select r.id, r.subscription, r.event_ids, r.granted
    from __schema__.runs r
    where __schema__.has_expired_rest(r)
    order by r.expires_at
    limit $1
    for update skip locked
  ),
  expired_chunks as materialized (
    select q as chunk
    from __schema__.lane_queue q
    where q.expires_at <= __schema__.clock()
    order by q.expires_at
    limit $1
    for update skip locked
  ),
  shortened as (
    update __schema__.runs r
    set event_ids = e.event_ids[1:e.granted]
    from expired_rests e
    where r.id = any(array(select e.id from expired_rests e)) and r.id = e.id
  ),
  ended as materialized (
    select d.event_id, d.subscription, d.attempts, d.failures
    from __schema__.remove_rows(array(select r.id from expired_runs r), array(select c.chunk from expired_chunks c)) as d
    union all
    select u.event_id, e.subscription, 0, 0
    from expired_rests e
    cross join lateral unnest(e.event_ids[e.granted + 1:]) as u(event_id)
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, finished_at, reason)
    select e.event_id, e.subscription, 'expired', e.attempts, e.failures, __schema__.clock(), 'expired'
    from ended e
  ),
  buried as (
    insert into __schema__.dead_letters (id, event_id, subscription, kind, reason, attempts, failures,
      event_snapshot, subscription_snapshot, buried_at)
    select __schema__.uuid_v7(), d.event_id, d.subscription, 'expired', 'expired', d.attempts, d.failures,
      __schema__.event_document(e), __schema__.subscriber_document(s), __schema__.clock()
    from ended d
    join __schema__.events e on e.id = d.event_id
    join __schema__.subscriptions s on s.no = d.subscription
  )
  select d.subscription, s.name, e.type, d.event_id
  from ended d
  join __schema__.events e on e.id = d.event_id
  join __schema__.subscriptions s on s.no = d.subscription`,
)

export const wasClockSetBackStatement = defineStatement(
  'was_clock_set_back',
  `select exists (select 1 from __schema__.workers w where w.seen_at > __schema__.clock() + interval '1 s')`,
)

/**
 * The length of a lease is in its run, that of a retry in its record. A replay that ended in the future has ended now: for a while
 * it answers identical calls. A shortened wait is no longer too long, so each is shortened once. Rows that are locked or beyond
 * the limit follow with the next call: workers keep their time in the future until nothing is left. Workers are locked in the order
 * of their numbers, as in `touch_workers`.
 */
export const shortenWaitsStatement = defineStatement(
  'shorten_waits',
  `with lasting as materialized (
    select r.id, r.lease_ms * interval '1 ms' as given
    from __schema__.runs r
    where r.state = 'leased' and r.leased_until > __schema__.clock() + r.lease_ms * interval '1 ms'
    limit $1
  ),
  waiting as materialized (
    select r.id, a.next_at - a.finished_at as given
    from __schema__.runs r
    cross join lateral (
      select a.next_at, a.finished_at from __schema__.audit a
      where a.event_id = r.event_ids[1] and a.subscription = r.subscription
      order by a.id desc
      limit 1
    ) as a
    where r.state = 'deferred' and r.attempts > 0 and r.due_at > __schema__.clock() + (a.next_at - a.finished_at)
    limit $1
  ),
  unlocked as materialized (
    select r.id, r.state
    from __schema__.runs r
    where r.id = any(array(select l.id from lasting l union all select w.id from waiting w))
      and r.state in ('leased', 'deferred')
    order by r.id
    for update skip locked
  ),
  leases as (
    update __schema__.runs r
    set leased_until = __schema__.clock() + l.given, leased_at = least(r.leased_at, __schema__.clock())
    from lasting l
    join unlocked u on u.id = l.id
    where r.id = l.id and r.state = 'leased'
  ),
  retries as (
    update __schema__.runs r
    set due_at = __schema__.clock() + w.given
    from waiting w
    join unlocked u on u.id = w.id
    where r.id = w.id and r.state = 'deferred'
  ),
  ended as (
    update __schema__.replays r
    set finished_at = __schema__.clock()
    where r.finished_at > __schema__.clock() + interval '1 s'
  ),
  handlers as materialized (
    select s.no
    from __schema__.subscriptions s
    where s.handler_seen_at > __schema__.clock() + interval '1 s'
    for no key update skip locked
  ),
  seen as (
    update __schema__.subscriptions s
    set handler_seen_at = __schema__.clock()
    from handlers h
    where s.no = h.no
  ),
  endpoints as materialized (
    select e.subscription
    from __schema__.endpoints e
    where e.suspended_at > __schema__.clock() + interval '1 s'
    for no key update skip locked
  ),
  suspended as (
    update __schema__.endpoints e
    set suspended_at = __schema__.clock()
    from endpoints s
    where e.subscription = s.subscription
  ),
  counted as (
    select (select count(*) from lasting) as lasting, (select count(*) from waiting) as waiting,
      (select count(*) from unlocked) as unlocked,
      (select count(*) from __schema__.subscriptions s where s.handler_seen_at > __schema__.clock() + interval '1 s')
        - (select count(*) from handlers) as handlers_left,
      (select count(*) from __schema__.endpoints e where e.suspended_at > __schema__.clock() + interval '1 s')
        - (select count(*) from endpoints) as endpoints_left
  ),
  ahead as materialized (
    select w.no
    from __schema__.workers w
    cross join counted c
    where w.seen_at > __schema__.clock() + interval '1 s'
      and c.unlocked = c.lasting + c.waiting and c.lasting < $1 and c.waiting < $1
      and c.handlers_left = 0 and c.endpoints_left = 0
    order by w.no
    for update of w
  )
  update __schema__.workers w
  set seen_at = __schema__.clock()
  from ahead a
  where w.no = a.no`,
)
