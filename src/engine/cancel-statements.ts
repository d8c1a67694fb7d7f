import { defineStatement } from '../db/database.ts'

export const cancelStatement = defineStatement(
  'cancel',
  `with taken as materialized (
    select t.event_id, t.subscription, t.is_leased, t.attempts, t.failures
    from __schema__.take_out($1::bigint[], $2, false, false) as t
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, finished_at, reason)
    select t.event_id, t.subscription, 'cancelled', t.attempts, t.failures, __schema__.clock(), $3
    from taken t
    where not t.is_leased
  )
  select t.event_id, t.subscription, t.is_leased from taken t order by t.event_id, t.subscription`,
)

/** Cancels whole runs and chunks. Rows that another session has locked are left to the next call. */
export const cancelRowsStatement = defineStatement(
  'cancel_rows',
  `with locked_runs as materialized (
    select r.id
    from __schema__.runs r
    where r.id = any($1::bigint[]) and r.state <> 'leased'
    order by r.id
    for update skip locked
  ),
  locked_chunks as materialized (
    select q as chunk
    from unnest($2::int[], $3::text[], $4::bigint[]) as g(subscription, ordering_key, position)
    join __schema__.lane_queue q
      on q.subscription = g.subscription and q.ordering_key = g.ordering_key and q.position = g.position
    for update of q skip locked
  ),
  removed as materialized (
    select d.event_id, d.subscription, d.attempts, d.failures
    from __schema__.remove_rows(array(select r.id from locked_runs r), array(select c.chunk from locked_chunks c)) as d
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, finished_at, reason)
    select d.event_id, d.subscription, 'cancelled', d.attempts, d.failures, __schema__.clock(), $5
    from removed d
  )
  select d.event_id, d.subscription, false from removed d`,
)

/** Makes processes look whether they hold cancelled deliveries that they have not begun. */
export const notifyCancelledStatement = defineStatement(
  'tell_cancelled',
  `select pg_notify('posthorn.' || btrim('__schema__', '"'), 'cancelled')`,
)

/** Whether any delivery of these events still waits, or is leased without a mark that it is cancelled. */
export const anyLeftStatement = defineStatement(
  'cancel_escaped',
  `select exists (
      select 1 from __schema__.inbox i
      where i.event_ids && $1::bigint[] and ($2::int is null or i.subscription = $2))
    or exists (
      select 1 from __schema__.lane_queue q
      where q.event_ids && $1 and ($2 is null or q.subscription = $2))
    or exists (
      select 1 from __schema__.runs r
      where r.event_ids && $1 and ($2 is null or r.subscription = $2)
        and (r.state <> 'leased' or exists (
          select 1 from unnest(r.event_ids) as u(event_id)
          where u.event_id = any($1) and u.event_id <> all(coalesce(r.cancelled, '{}')))))`,
)

/** A run holds up to 200 deliveries and a chunk up to 50, so this many are cancelled in about a second. */
export const findOrphanedRunsStatement = defineStatement(
  'orphaned_runs',
  `select r.id
  from __schema__.runs r
  where r.subscription = any(array(select s.no from __schema__.subscriptions s where s.status = 'deleted')) and r.state <> 'leased' and r.event_ids <> '{}'
  limit 100`,
)

export const findOrphanedChunksStatement = defineStatement(
  'orphaned_chunks',
  `select q.subscription, q.ordering_key, q.position
  from __schema__.lane_queue q
  where q.subscription = any(array(select s.no from __schema__.subscriptions s where s.status = 'deleted'))
  limit 500`,
)

export const forgetBlockedLanesStatement = defineStatement(
  'forget_blocked_lanes',
  `delete from __schema__.runs r
  where r.id = any(array(
    select b.id
    from __schema__.runs b
    where b.subscription = any(array(select s.no from __schema__.subscriptions s where s.status = 'deleted')) and b.state = 'blocked' and b.event_ids = '{}'
    limit $1::int
    for update skip locked))
  returning r.id`,
)
