import { defineStatement } from '../db/database.ts'

/** Lists of events that are gone and whose audit is old enough to follow: $1 is how long it is kept, in ms. */
export const takeRemovals = defineStatement(
  'take_removals',
  `select r.id, r.event_ids
  from __schema__.removals r
  where r.finished_at <= __schema__.clock() - $1 * interval '1 ms'
  order by r.finished_at
  limit $2
  for update skip locked`,
)

export const forgetRemovals = defineStatement(
  'forget_removals',
  'delete from __schema__.removals r where r.id = any($1::bigint[])',
)

/** How many events are gone already whose audit would follow now. */
export const countRemovals = defineStatement(
  'count_removals',
  `select coalesce(sum(cardinality(r.event_ids)), 0)::int
  from __schema__.removals r
  where r.finished_at <= __schema__.clock() - $1 * interval '1 ms'`,
)

/**
 * Removes at most $2 of the rows that belong to the events $1, and gives their number. The rows have no key that is
 * cheaper to find them by than their place (ctid), and nobody changes them.
 */
export function removeFrom(table: 'audit' | 'exchanges' | 'lane_numbers' | 'replayed' | 'starts') {
  return defineStatement(
    `remove_${table}`,
    `with removed as (
      delete from __schema__.${table} x
      where x.ctid = any(array(
        select o.ctid from __schema__.${table} o where o.event_id = any($1::bigint[]) limit $2))
      returning 1
    )
    select count(*)::int from removed`,
  )
}

/** As `remove_audit`, but gives each record, with what its webhook sent and got, as JSON for the archive. */
export const removeAuditToArchive = defineStatement(
  'remove_archived_audit',
  `with removed as (
    delete from __schema__.audit x
    where x.ctid = any(array(
      select o.ctid from __schema__.audit o where o.event_id = any($1::bigint[]) limit $2))
    returning x.*
  )
  select a.id, json_build_object(
    'id', a.id, 'event_id', a.event_id, 'subscription', s.name, 'subscription_id', s.id, 'settlement', a.settlement,
    'attempt', a.attempt, 'failures', a.failures, 'worker_id', w.name, 'leased_at', a.leased_at,
    'started_at', a.started_at, 'finished_at', a.finished_at, 'next_at', a.next_at, 'status_code', a.status_code,
    'execution_ms', a.execution_ms, 'reason', a.reason, 'cause', a.cause, 'exchange', case when x.event_id is not null then
      json_build_object('started_at', x.started_at, 'request', x.request, 'status_code', x.status_code,
        'response', x.response, 'error_class', x.error_class, 'error', x.error, 'timings', x.timings) end)::text
  from removed a
  left join __schema__.exchanges x
    on x.event_id = a.event_id and x.subscription = a.subscription and x.token = a.token
  left join __schema__.subscriptions s on s.no = a.subscription
  left join __schema__.workers w on w.no = a.worker
  order by a.id`,
)
