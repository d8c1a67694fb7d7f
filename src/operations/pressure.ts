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
 * Measures how deep the queues with a limit are, and says which of them came to another level. A queue can't have grown
 * by more than the event ids that were drawn since: where that stays below its watermark nothing is counted, and what is
 * counted is counted up to its limit only.
 */
export async function measurePressure(db: Database): Promise<PressureChange[]> {
  const rows = await db.once<PressureRow>(measureStatement(db), [queuesMax], { indexPlans: true })
  return rows.map(([name, before, level, depth, isRefusing]) => ({ name, before, level, depth, isRefusing }))
}

const queuesMax = 500

/** What was measured a moment ago, by whomever, is left alone. */
const measureStatement = defineStatement(
  'measure_pressure',
  `with limited as materialized (
    select s.no, s.name, (c.config->>'maxQueueDepth')::bigint as depth_max, (c.config->>'highWatermark')::bigint as high,
      c.config->>'on_full' = 'refuse' as refuses, i.latest_id
    from __schema__.subscriptions s
    cross join lateral (select __schema__.queue_config(s) as config) as c
    cross join (select coalesce(pg_sequence_last_value('__schema__.event_ids'::regclass), 0) as latest_id) as i
    where num_nonnulls(s.max_depth, s.high_watermark) > 0 and s.storage = 'database' and s.status <> 'deleted'
  ),
  counted as materialized (
    select l.no, l.name, l.depth_max, l.high, l.refuses, l.latest_id, coalesce(p.level, 'none') as before,
      coalesce(p.is_refusing, false) as refused_before,
      case
        when p.depth + l.latest_id - p.latest_id < coalesce(l.high, l.depth_max) and p.level = 'none'
          and p.measured_at between __schema__.clock() - interval '10 s' and __schema__.clock()
          then null
        else __schema__.queue_depth(l.no, least(coalesce(l.depth_max, l.high), 1000000)::int)
      end as depth
    from limited l
    left join __schema__.queue_pressure p on p.subscription = l.no
    where p.subscription is null or p.measured_at not between __schema__.clock() - interval '100 ms' and __schema__.clock()
    order by p.measured_at nulls first
    limit $1
  ),
  judged as materialized (
    select c.*, (case when c.depth >= c.depth_max then 'full' when c.depth >= c.high then 'high' else 'none' end) as level
    from counted c
    where c.depth is not null
  ),
  measured as (
    insert into __schema__.queue_pressure as p (subscription, level, is_refusing, depth, latest_id, measured_at)
    select j.no, j.level, j.level = 'full' and j.refuses, j.depth, j.latest_id, __schema__.clock()
    from judged j
    order by j.no
    on conflict (subscription) do update
    set level = excluded.level, is_refusing = excluded.is_refusing, depth = excluded.depth, latest_id = excluded.latest_id,
      measured_at = excluded.measured_at
  ),
  unlimited as (
    delete from __schema__.queue_pressure p where p.subscription not in (select l.no from limited l)
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
