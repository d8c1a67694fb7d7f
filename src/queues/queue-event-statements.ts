import { defineStatement } from '../db/database.ts'

/*
 * Where the deliveries of a queue are: in runs, in lanes, in the inbox, or in memory. Each statement reads the queue $1 from the
 * row ($2, $3) on, at most $4 rows.
 */

export const queueRuns = defineStatement(
  'queue_runs',
  `select r.first_id::text, r.id::text, r.event_ids
  from (
    (select r.first_id, r.id, r.event_ids from __schema__.runs r
     where r.subscription = $1 and r.state = 'ready' and r.first_id >= $2::bigint and (r.first_id, r.id) >= ($2::bigint, $3::bigint)
     order by r.first_id, r.id limit $4)
    union all
    (select r.first_id, r.id, r.event_ids from __schema__.runs r
     where r.subscription = $1 and r.state = 'leased' and (r.first_id, r.id) >= ($2::bigint, $3::bigint)
     order by r.first_id, r.id limit $4)
    union all
    (select r.first_id, r.id, r.event_ids from __schema__.runs r
     where r.subscription = $1 and r.state in ('deferred', 'delayed', 'held', 'gated', 'blocked') and r.first_id >= $2::bigint
       and (r.first_id, r.id) >= ($2::bigint, $3::bigint)
     order by r.first_id, r.id limit $4)
  ) as r
  order by r.first_id, r.id
  limit $4`,
)

export const queueLanes = defineStatement(
  'queue_lanes',
  `select q.ordering_key, q.position::text, q.event_ids
  from __schema__.lane_queue q
  where q.subscription = $1 and (q.ordering_key, q.position) >= ($2::text, $3::bigint)
  order by q.ordering_key, q.position
  limit $4`,
)

export const queueInbox = defineStatement(
  'queue_inbox',
  `select i.xid::text, i.id::text, i.event_ids
  from __schema__.inbox i
  where i.subscription = $1 and i.event_ids is not null and (i.xid, i.id) >= ($2::text::xid8, $3::bigint)
  order by i.xid, i.id
  limit $4`,
)

/** As last persisted. */
export const queueMemory = defineStatement(
  'queue_memory',
  `select m.event_id::text, '0', array[m.event_id]
  from __schema__.memory_events m
  left join __schema__.memory_queues q on q.subscription = m.subscription
  where m.subscription = $1 and m.event_id >= $2::bigint and $3::bigint = 0 and m.event_id > coalesce(q.checkpoint, 0)
  order by m.event_id
  limit $4`,
)

/** The events $2 of the queues $1, in the order given. Payloads beyond 4 MB in all are left out, except the first. */
export const readQueueEvents = defineStatement(
  'queue_events',
  `with asked as materialized (
    select u.queue, u.id, u.place from unnest($1::int[], $2::bigint[]) with ordinality as u(queue, id, place)
  ),
  found as materialized (
    select e as event, d.failures, d.last_error, d.last_error_at, d.leased_at, a.queue, a.place
    from asked a
    join __schema__.events e on e.id = a.id
    join __schema__.delivery_states($2::bigint[]) as d on d.event_id = e.id and d.subscription = a.queue
    where e.id = any($2::bigint[])
    union all
    select __schema__.memory_event(m), m.failures, m.last_error, m.last_error_at, null, a.queue, a.place
    from asked a
    join __schema__.memory_events m on m.subscription = a.queue and m.event_id = a.id
  ),
  stored as materialized (
    select f.*,
      sum(octet_length((f.event).payload)) over (order by f.place) - octet_length((f.event).payload) as before
    from found f
  )
  select e.queue, e.before >= 4194304, e.failures, e.last_error, e.last_error_at, e.leased_at,
    (e.event).id, (e.event).type, case when e.before < 4194304 then (e.event).payload else 'null' end,
    (e.event).ordering_key, date_part('epoch', (e.event).created_at) * 1000, __schema__.rare_fields(e.event)
  from stored e
  order by e.place`,
)
