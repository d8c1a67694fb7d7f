import { defineStatement } from '../db/database.ts'

/**
 * Lanes of a subscription by their keys, from a key on, in a status; or the lane of one key. Goes through up to $4 lanes and
 * returns up to $5 of them, at least one row: `seen` and `lastKey` say how far it went. Of a deep lane it counts 500 chunks.
 */
export const listLanesStatement = defineStatement(
  'list_lanes',
  `with visited as materialized (
    select r.subscription, r.ordering_key, r.state, r.event_ids, r.blocked_by, r.due_at, r.leased_at,
      case
        when r.state = 'blocked' then 'blocked'
        when r.state = 'leased' then 'delivering'
        when r.attempts > 0 then 'retrying'
        else 'waiting'
      end as status
    from __schema__.runs r
    where r.subscription = $1 and r.ordering_key is not null and r.state not in ('delayed', 'held')
      and ($2::text is null or r.ordering_key > $2) and ($6::text is null or r.ordering_key = $6)
    order by r.ordering_key
    limit $4
  ),
  lane as materialized (
    select v.*, case when v.state = 'blocked' then v.blocked_by else v.event_ids[1] end as head
    from visited v
    where $3::text is null or v.status = $3
    order by v.ordering_key
    limit $5
  )
  select (select count(*)::int from visited) as seen, (select max(v.ordering_key) from visited v) as "lastKey",
    l.ordering_key as "orderingKey", l.status, l.head as "headEventId",
    __schema__.delivery_id(e.created_at, e.id, l.subscription) as "headDeliveryId",
    (cardinality(l.event_ids) - case when l.state = 'blocked' then 0 else 1 end + q.waiting)::int as waiting,
    q.chunks >= 500 as "waitingIsLeast",
    case l.status when 'delivering' then l.leased_at when 'waiting' then e.created_at else a.finished_at end as since,
    l.due_at as "nextAt", a.reason as "lastError", __schema__.clock() as now
  from (values (1)) as one
  left join lane l on true
  left join __schema__.events e on e.id = l.head
  left join lateral (
    select coalesce(sum(cardinality(c.event_ids)), 0) as waiting, count(*) as chunks
    from (
      select q.event_ids from __schema__.lane_queue q
      where q.subscription = l.subscription and q.ordering_key = l.ordering_key
      limit 500
    ) as c
  ) as q on true
  left join lateral (
    select coalesce(a.reason, case when a.settlement = 'lease_expired' then 'lease expired' end) as reason, a.finished_at
    from __schema__.audit a
    where a.event_id = l.head and a.subscription = l.subscription
      and a.settlement in ('retried', 'lease_expired', 'buried', 'snoozed')
    order by a.id desc
    limit 1
  ) as a on l.status in ('blocked', 'retrying')
  order by l.ordering_key`,
)
