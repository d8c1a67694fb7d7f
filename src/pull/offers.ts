import { numberArray, textArray } from '../db/array.ts'
import { type Database, defineStatement } from '../db/database.ts'

/** What long polls wait for: deliveries of a subscription, or only those with a tag. */
export interface Wish {
  readonly subscription: number
  readonly tag: string | null
  /** Whether deliveries whose last worker vanished count. */
  readonly suspects: boolean
  /** Counting stops here. */
  readonly deliveriesMax: number
}

/** Counts the ready deliveries for each wish, up to its bound: one statement for all long polls. */
export async function countOffers(db: Database, wishes: readonly Wish[]): Promise<number[]> {
  const rows = await db.run<[place: number, deliveries: number]>(countStatement(db), [
    numberArray(wishes.map((wish) => wish.subscription)),
    textArray(wishes.map((wish) => wish.tag)),
    numberArray(wishes.map((wish) => wish.deliveriesMax)),
    wishes.map((wish) => wish.suspects),
  ])
  const offers = wishes.map(() => 0)
  for (const [place, deliveries] of rows) offers[place - 1] = deliveries
  return offers
}

/** A lane counts as one delivery, since it gives one at a time. */
const countStatement = defineStatement(
  'count_offers',
  `select g.place::int, coalesce(sum(case when o.ordering_key is null then cardinality(o.event_ids) else 1 end), 0)::int
  from unnest($1::int[], $2::text[], $3::int[], $4::boolean[]) with ordinality
    as g(subscription, tag, deliveries_max, suspects, place)
  join __schema__.subscriptions s on s.no = g.subscription and s.status in ('active', 'draining')
  cross join lateral (
    (select r.event_ids, r.ordering_key
     from __schema__.runs r
     where g.tag is null and r.subscription = g.subscription and r.state = 'ready'
       and r.first_id <= coalesce(s.drain_fence, 9223372036854775807)
       and (g.suspects or not r.suspect)
     order by r.first_id
     limit g.deliveries_max)
    union all
    (select r.event_ids, r.ordering_key
     from __schema__.ready_tags t
     join __schema__.runs r on r.id = t.run_id and r.state = 'ready'
     where t.subscription = g.subscription and t.tag = g.tag and (g.suspects or not r.suspect)
       and r.first_id <= coalesce(s.drain_fence, 9223372036854775807)
     order by t.first_id
     limit g.deliveries_max)
  ) as o
  group by g.place`,
)
