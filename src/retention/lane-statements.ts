import { defineStatement } from '../db/database.ts'

/**
 * Writes what was delivered under the numbers of the events $1 to the counters of their lanes. Locks the counters in the
 * order in which a lease locks them.
 */
export const foldDelivered = defineStatement(
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

/**
 * Looks at the next $4 lanes after ($1, $2) and forgets those that were idle for $3 ms. A lane with something out may be
 * numbered at this moment, so it stays.
 */
export const pruneIdleLanes = defineStatement(
  'prune_lanes',
  `with seen as materialized (
    select c.subscription, c.ordering_key, c.touched_at
    from __schema__.lane_counters c
    where (c.subscription, c.ordering_key) > ($1::int, $2)
    order by c.subscription, c.ordering_key
    limit $4
  ),
  removed as (
    delete from __schema__.lane_counters c
    using seen s
    where c.subscription = s.subscription and c.ordering_key = s.ordering_key
      and s.touched_at < __schema__.clock() - $3 * interval '1 ms'
      and c.touched_at < __schema__.clock() - $3 * interval '1 ms'
      and not exists (
        select 1 from __schema__.runs r
        where r.subscription = s.subscription and r.ordering_key = s.ordering_key and r.state not in ('delayed', 'held'))
    returning 1
  ),
  last as (
    select s.subscription, s.ordering_key from seen s order by s.subscription desc, s.ordering_key desc limit 1
  )
  select (select count(*)::int from removed), (select count(*)::int from seen),
    coalesce((select l.subscription from last l), 0), coalesce((select l.ordering_key from last l), '')`,
)
