import { type Database, defineStatement } from '../db/database.ts'

export type PressureLevel = 'none' | 'high' | 'full'

export interface PressureChange {
  readonly name: string
  readonly before: PressureLevel
  readonly level: PressureLevel
  readonly depth: number
  /** Publishers are turned away. */
  readonly isRefusing: boolean
}

/**
 * Measures how deep the queues with a limit are, and says which of them came to another level. By publishing a queue
 * can't have grown by more than the event ids that were drawn since: where that stays below its watermark nothing is
 * counted, for ten seconds at most, since what is sent again draws none. What is counted is counted up to its limit only.
 */
export async function measurePressure(db: Database): Promise<PressureChange[]> {
  const rows = await db.once<PressureRow>(measureStatement(db), [queuesMax], { indexPlans: true })
  return rows.map(([name, before, level, depth, isRefusing]) => ({ name, before, level, depth, isRefusing }))
}

const queuesMax = 500

/** One process at a time. */
const measureStatement = defineStatement(
  'measure_pressure',
  `with turn as materialized (
    select pg_try_advisory_xact_lock(hashtextextended('__schema__', 7002)) as is_mine
  ),
  limited as materialized (
    select s.no, s.name, (c.config->>'maxQueueDepth')::bigint as depth_max, (c.config->>'highWatermark')::bigint as high,
      c.config->>'on_full' = 'refuse' as refuses, i.latest_id
    from __schema__.subscriptions s
    cross join lateral (select __schema__.queue_config(s) as config) as c
    cross join (select coalesce(pg_sequence_last_value('__schema__.event_ids'::regclass), 0) as latest_id) as i
    where num_nonnulls(s.max_depth, s.high_watermark) > 0 and s.storage = 'database' and s.status <> 'deleted'
      and (select t.is_mine from turn t)
  ),
  due as materialized (
    select l.*, coalesce(p.level, 'none') as before, coalesce(p.is_refusing, false) as refused_before
    from limited l
    left join __schema__.queue_pressure p on p.subscription = l.no
    where p.subscription is null or p.measured_at not between __schema__.clock() - interval '10 s' and __schema__.clock()
      or (p.measured_at < __schema__.clock() - interval '100 ms'
        and (p.level <> 'none' or p.depth + l.latest_id - p.latest_id >= coalesce(l.high, l.depth_max)))
    order by p.measured_at nulls first
    limit $1
  ),
  arrival as materialized (
    select i.subscription, sum(cardinality(i.event_ids)) as deliveries
    from __schema__.inbox i
    where exists (select 1 from due d)
    group by i.subscription
  ),
  counted as materialized (
    select d.*, __schema__.depth_inside(d.no, coalesce(d.depth_max, d.high)::int) + coalesce(a.deliveries, 0) as depth
    from due d
    left join arrival a on a.subscription = d.no
  ),
  judged as materialized (
    select c.*, (case when c.depth >= c.depth_max then 'full' when c.depth >= c.high then 'high' else 'none' end) as level
    from counted c
  ),
  measured as (
    insert into __schema__.queue_pressure as p (subscription, level, is_refusing, depth, latest_id, measured_at)
    select j.no, j.level, j.level = 'full' and j.refuses, j.depth, j.latest_id, __schema__.clock()
    from judged j
    order by j.no
    on conflict (subscription) do update
    set level = excluded.level, is_refusing = excluded.is_refusing, depth = excluded.depth, latest_id = excluded.latest_id,
      measured_at = excluded.measured_at
  )
  select j.name, j.before, j.level, j.depth, j.level = 'full' and j.refuses
  from judged j
  where j.level <> j.before or (j.level = 'full' and j.refuses) <> j.refused_before`,
)

type PressureRow = [
  name: string,
  before: PressureLevel,
  level: PressureLevel,
  depth: number,
  isRefusing: boolean,
]
