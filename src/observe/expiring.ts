import type { Reader } from '../core/reader.ts'
import { defineStatement } from '../db/database.ts'

export interface Expiring {
  readonly subscription: number
  /** Deliveries that cannot all be begun before they expire, at the rate of late. */
  readonly deliveries: number
}

/** What is looked at of each queue, and of each table: the first to expire. */
const deliveriesMax = 10_000
const rowsMax = 50_000

/**
 * How many must miss their expiry even if those that end first always go first. Up to each expiry so many can be begun
 * as the rate and the time until then allow; what is more than that is late, and the worst of these counts.
 */
export async function countExpiring(reader: Reader): Promise<Expiring[]> {
  const rows = await reader.run<ExpiringRow>(expiringStatement(reader), [deliveriesMax, rowsMax])
  return rows.map(([subscription, deliveries]) => ({ subscription, deliveries }))
}

/** Beyond the bound the count stays the same and the time grows: such an expiry is never the worst. */
const expiringStatement = defineStatement(
  'count_expiring',
  `with waiting as (
    (select r.subscription, r.expires_at, cardinality(r.event_ids) as deliveries
     from __schema__.runs r
     where r.expires_at is not null and r.state <> 'leased'
     order by r.expires_at
     limit $2)
    union all
    (select q.subscription, q.expires_at, cardinality(q.event_ids)
     from __schema__.lane_queue q
     where q.expires_at is not null
     order by q.expires_at
     limit $2)
    union all
    (select i.subscription, u.expires_at, 1
     from __schema__.inbox i
     cross join lateral unnest(i.expires_ats) as u(expires_at)
     where i.expires_ats is not null and u.expires_at is not null
     limit $2)
  ),
  due as (
    select w.subscription, greatest(date_part('epoch', w.expires_at - __schema__.clock()), 0) as seconds,
      least(sum(w.deliveries) over (partition by w.subscription order by w.expires_at), $1) as deliveries
    from waiting w
  )
  select d.subscription, ceil(max(d.deliveries - d.seconds * coalesce(__schema__.rate_now(c.ended_per_second, c.counted_at), 0)))::int
  from due d
  left join __schema__.queue_counters c on c.subscription = d.subscription
  group by d.subscription
  having max(d.deliveries - d.seconds * coalesce(__schema__.rate_now(c.ended_per_second, c.counted_at), 0)) > 0`,
)

type ExpiringRow = [subscription: number, deliveries: number]
