import { type Connection, defineStatement } from '../db/database.ts'

/**
 * What was delivered under numbers that are about to go is written to the counters of their lanes. The next delivery
 * tells its receiver the number of the one before it, however long ago that was.
 */
export async function foldLanes(
  tx: Connection,
  db: { readonly schema: string },
  eventIds: string,
): Promise<void> {
  await tx.run(foldStatement(db), [eventIds])
}

/** Locked in the order in which a lease locks them. */
const foldStatement = defineStatement(
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
