import { defineStatement } from '../db/database.ts'

/** Lists of removed events whose audit is old enough to follow: $1 is how long it is kept, in ms. */
export const takeRemovals = defineStatement(
  'take_removals',
  `select r.id, r.event_ids as "eventIds"
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

/** How many removed events there are whose audit would follow now. */
export const countRemovals = defineStatement(
  'count_removals',
  `select coalesce(sum(cardinality(r.event_ids)), 0)::int as count
  from __schema__.removals r
  where r.finished_at <= __schema__.clock() - $1 * interval '1 ms'`,
)

/**
 * The tables that hold rows of removed events, each with the statement that removes at most $2 rows of the events $1. The
 * order matters: a record is archived together with its exchange, which goes only after it. Nobody changes these rows,
 * and no key finds them as cheaply as their place (ctid).
 */
export const removeOfEvents = {
  audit: removeFrom('audit'),
  exchanges: removeFrom('exchanges'),
  lane_numbers: removeFrom('lane_numbers'),
  replayed: removeFrom('replayed'),
  starts: removeFrom('starts'),
}

function removeFrom(table: string) {
  return defineStatement(
    `remove_${table}`,
    `delete from __schema__.${table} x
    where x.ctid = any(array(
      select o.ctid from __schema__.${table} o where o.event_id = any($1::bigint[]) limit $2))`,
  )
}

/** As `remove_audit`, but returns each record, with the exchange of its webhook, as JSON for the archive. */
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
        'response', x.response, 'error_class', x.error_class, 'error', x.error, 'timings', x.timings) end)::text as text
  from removed a
  left join __schema__.exchanges x
    on x.event_id = a.event_id and x.subscription = a.subscription and x.token = a.token
  left join __schema__.subscriptions s on s.no = a.subscription
  left join __schema__.workers w on w.no = a.worker
  order by a.id`,
)

/**
 * Before the numbers of the events $1 go, writes the highest delivered number of each lane to its counter: the next
 * delivery of the lane tells its receiver the number of the one before, however long ago that was. Locks the counters in
 * the order in which a lease locks them.
 */
export const foldLanes = defineStatement(
  'fold_lanes',
  `with delivered as materialized (
    select n.subscription, n.ordering_key, n.epoch, max(n.sequence) as sequence
    from __schema__.lane_numbers n
    where n.event_id = any($1::bigint[]) and exists (
      select 1 from __schema__.audit a
      where a.event_id = n.event_id and a.settlement = 'completed' and a.subscription = n.subscription
        and a.id > n.audit_id
        and not exists (
          select 1 from __schema__.lane_numbers m
          where m.event_id = n.event_id and m.subscription = n.subscription and m.replays > n.replays
            and m.audit_id < a.id))
    group by n.subscription, n.ordering_key, n.epoch
  ),
  counter as materialized (
    select c.subscription, c.ordering_key, d.sequence
    from __schema__.lane_counters c
    join delivered d on d.subscription = c.subscription and d.ordering_key = c.ordering_key and d.epoch = c.epoch
    where d.sequence > c.delivered
    order by c.subscription, c.ordering_key
    for update of c
  )
  update __schema__.lane_counters c
  set delivered = greatest(c.delivered, o.sequence)
  from counter o
  where c.subscription = o.subscription and c.ordering_key = o.ordering_key`,
)

/** The subscriptions that the event $1 was owed to; the event itself may be gone. */
export const formerOwed = defineStatement(
  'former_owed',
  'select distinct a.subscription from __schema__.audit a where a.event_id = $1 order by a.subscription',
)
