import { defineStatement } from '../db/database.ts'

/**
 * A run that a handler is settling in its own transaction is locked. It is skipped: no other session can reclaim it either.
 */
export const heartbeatStatement = defineStatement(
  'heartbeat',
  `with given as materialized (
    select g.run_id, g.token, g.lease_ms, g.begun::bigint[] as begun
    from unnest($1::bigint[], $2::bigint[], $3::int[], $4::text[]) as g(run_id, token, lease_ms, begun)
  ),
  held as materialized (
    select r.id, r.token, r.cancelled, r.subscription
    from __schema__.runs r
    join given g on g.run_id = r.id and g.token = r.token
    where r.id = any($1) and r.state = 'leased'
  ),
  unlocked as materialized (
    select r.id, g.lease_ms, g.begun
    from __schema__.runs r
    join given g on g.run_id = r.id and g.token = r.token
    where r.id = any($1) and r.state = 'leased'
    for update of r skip locked
  ),
  renewed as (
    update __schema__.runs r
    -- Moves by a microsecond at least, so that is_unheard can see that the lease was renewed.
    set leased_until = greatest(r.leased_until + interval '1 us', __schema__.clock() + u.lease_ms * interval '1 ms'),
      lease_ms = case when r.leased_until > __schema__.clock() + u.lease_ms * interval '1 ms' then r.lease_ms else u.lease_ms end,
      begun = case when u.begun is null then r.begun
        else array(select b.id from unnest(u.begun) as b(id) where b.id = any(r.event_ids[1:r.granted])) end
    from unlocked u
    where r.id = any($1) and r.id = u.id
    returning r.id, r.leased_until
  )
  select h.id, h.cancelled, n.leased_until,
    exists (
      select 1 from __schema__.subscriptions s
      where s.no = h.subscription and s.status not in ('active', 'draining')),
    h.token
  from held h
  left join renewed n on n.id = h.id`,
)

/** Moves one delivery of a leased run into a leased run of its own, unless it is alone or the head of a lane. */
export const isolateStatement = defineStatement(
  'isolate',
  `with held as materialized (
    select r.id, r.subscription, r.event_ids, r.ordering_key, r.concurrency_key, r.tags, r.expires_at, r.max_failures,
      r.suspect, r.token, r.worker, r.leased_at, r.leased_until, r.lease_ms, r.cancelled
    from __schema__.runs r
    where r.id = $1 and r.token = $2 and r.state = 'leased' and $3 = any(r.event_ids[1:r.granted])
    for update
  ),
  alone as (
    select h.id from held h where h.ordering_key is not null or cardinality(h.event_ids) = 1
  ),
  shrunk as (
    update __schema__.runs r
    set event_ids = array_remove(r.event_ids, $3), granted = r.granted - 1, begun = array_remove(r.begun, $3)
    from held h
    where r.id = h.id and h.id not in (select a.id from alone a)
  ),
  single as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, concurrency_key, tags, expires_at,
      max_failures, suspect, token, worker, leased_at, leased_until, lease_ms, granted, begun, cancelled)
    select h.subscription, 'leased', array[$3], $3, h.concurrency_key, h.tags, h.expires_at, h.max_failures,
      h.suspect, h.token, h.worker, h.leased_at, h.leased_until, h.lease_ms, 1, array[$3],
      case when $3 = any(h.cancelled) then array[$3] end
    from held h
    where h.id not in (select a.id from alone a)
    returning id
  )
  select i.id, pg_current_xact_id()::text
  from (select a.id from alone a union all select s.id from single s) as i`,
)

/** Makes leased runs ready again. Returns runs that are locked, and runs with cancelled deliveries. */
export const releaseStatement = defineStatement(
  'release',
  `with given as materialized (
    select r.id
    from __schema__.runs r
    join unnest($1::bigint[], $2::bigint[]) as g(run_id, token) on g.run_id = r.id and g.token = r.token
    where r.id = any($1) and r.state = 'leased' and ($3::text = 'any' or __schema__.is_unheard(r))
  ),
  held as materialized (
    select r.id
    from __schema__.runs r
    join unnest($1::bigint[], $2::bigint[]) as g(run_id, token) on g.run_id = r.id and g.token = r.token
    where r.id = any($1) and r.state = 'leased' and ($3::text = 'any' or __schema__.is_unheard(r))
    order by r.id
    for update of r skip locked
  ),
  back as (
    update __schema__.runs r
    set state = 'ready', first_id = r.event_ids[1], token = null, worker = null, leased_at = null, leased_until = null,
      granted = null, begun = null
    from held h
    where r.id = any($1) and r.id = h.id
    returning r.id, r.subscription, r.event_ids, r.cancelled
  )
  select g.id, b.subscription,
    array(select u.event_id from unnest(b.event_ids) as u(event_id) where u.event_id = any(b.cancelled))
  from given g
  left join back b on b.id = g.id
  where b.id is null or b.event_ids && b.cancelled`,
)

export const findOwnLeasesStatement = defineStatement(
  'own_leases',
  `select r.id, r.token
  from __schema__.runs r
  where r.state = 'leased' and r.worker = any($1::int[])
    and (r.token between $2::bigint and $3::bigint or r.token = any($4::bigint[]))
  limit 10000`,
)

/**
 * Subscriptions that give out nothing now (without event ids), and cancelled deliveries that the worker still holds. The state is
 * wrapped, or the planner would go through all leases.
 */
export const readHoldsStatement = defineStatement(
  'read_holds',
  `select s.no, null::bigint[]
  from __schema__.subscriptions s
  where s.no = any($1::int[]) and s.status not in ('active', 'draining')
  union all
  select r.subscription, array_agg(u.event_id)
  from __schema__.runs r
  cross join lateral unnest(r.event_ids) as u(event_id)
  where r.worker = $2 and r.cancelled is not null and coalesce(r.state, 'ready') = 'leased' and u.event_id = any(r.cancelled)
  group by r.subscription`,
)

export const readCancelledStatement = defineStatement(
  'read_cancelled',
  `select u.event_id
  from __schema__.runs h
  join __schema__.runs r on r.worker = h.worker and r.subscription = h.subscription
  cross join lateral unnest(r.event_ids) as u(event_id)
  where h.id = $1 and r.cancelled is not null and coalesce(r.state, 'ready') = 'leased' and u.event_id = any(r.cancelled)
  order by u.event_id`,
)
