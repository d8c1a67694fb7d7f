import { readAtOnce } from '../core/reader.ts'
import { numberArray } from '../db/array.ts'
import { type Database, defineStatement } from '../db/database.ts'
import { allOthers, type QueueStats, type Stats, toldApartMax } from '../domain/hub-stats.ts'
import { tableSizes } from '../retention/storage.ts'
import { countWorkers } from '../workers/workers.ts'
import { countExpiring } from './expiring.ts'
import { countOverdue } from './overdue.ts'

/** Whoever was delayed has a low id and has waited only since its time came: so not the first alone is asked. */
const oldestMax = 10

/**
 * How much waits, and for how long. Ready runs are counted in an index, and only those that hold several are read: a
 * million waiting take a tenth of a second, as long as vacuum keeps up.
 */
export async function readStats(
  db: Database,
  { overdueAfterMs }: { readonly overdueAfterMs: number },
): Promise<Stats> {
  return readAtOnce(db, async (reader) => {
    const workers = await countWorkers(reader)
    const attemptsOverdue = await countOverdue(reader, { afterMs: overdueAfterMs })
    const behind = (await reader.query<Behind>(behindStatement(db).text)).rows
    const rest = (await reader.query<Rest>(restStatement(db).text)).rows[0] as Rest
    const { rows: tables } = await reader.query<Stats['tables'][number]>(tableSizes(db).text)
    await reader.query(indexPlans)
    const expiring = await countExpiring(reader)
    const { rows: queues } = await reader.query<QueueStats>(queuesStatement(db).text, [
      ...[toldApartMax, allOthers, oldestMax],
      numberArray(behind.map(({ subscription }) => subscription)),
      numberArray(behind.map(({ deliveries }) => deliveries)),
      numberArray(behind.map(({ oldestId }) => oldestId)),
      numberArray(expiring.map(({ subscription }) => subscription)),
      numberArray(expiring.map(({ deliveries }) => deliveries)),
    ])
    return { queues, tables, ...rest, workers, attemptsOverdue }
  })
}

/**
 * What waits changes tenfold between two analyzes, and a plan for what was there before takes ten times as long: it
 * reads all runs for the few that are asked for, or sorts a million to count them.
 */
const indexPlans = 'set local enable_seqscan = off; set local enable_sort = off'

type Rest = Pick<Stats, 'deadLetters' | 'oldestTransactionSeconds'>

interface Behind {
  readonly subscription: number
  readonly deliveries: number
  readonly oldestId: number
}

/** In lanes, and at the door. These tables are read as a whole. */
const behindStatement = defineStatement(
  'stats_behind',
  `select b.subscription, sum(cardinality(b.event_ids)) as deliveries, min(b.event_ids[1]) as "oldestId"
  from (
    select q.subscription, q.event_ids from __schema__.lane_queue q
    union all
    select i.subscription, i.event_ids from __schema__.inbox i where i.event_ids is not null
  ) as b
  group by b.subscription`,
)

const queuesStatement = defineStatement(
  'stats_queues',
  `with queue as materialized (
    select s.no, s.name, s.via, row_number() over (order by s.no) <= $1 as shown
    from __schema__.subscriptions s
    where s.status <> 'deleted'
  ),
  ready as (
    select r.subscription, count(*) as runs
    from __schema__.runs r
    where r.state = 'ready'
    group by r.subscription
  ),
  more as (
    select r.subscription, sum(cardinality(r.event_ids) - 1) as deliveries
    from __schema__.runs r
    where r.several and r.state = 'ready'
    group by r.subscription
  ),
  aside as (
    select r.subscription, sum(cardinality(r.event_ids)) as deliveries,
      -- Of a lane only the head waits for its time, the others wait for the head.
      sum(case when r.state = 'deferred' and r.ordering_key is not null then 1 else cardinality(r.event_ids) end)
        filter (where r.state in ('deferred', 'delayed')) as delayed,
      count(*) filter (where r.state = 'deferred' and r.failures > 0) as retries
    from __schema__.runs r
    where r.state in ('deferred', 'delayed', 'held', 'gated', 'blocked')
    group by r.subscription
  ),
  -- What a lease owns of a lane beyond what it was granted still waits.
  leased as (
    select r.subscription, sum(cardinality(r.event_ids[1:r.granted])) as deliveries,
      sum(cardinality(r.event_ids[r.granted + 1:])) as owned
    from __schema__.runs r
    where r.state = 'leased'
    group by r.subscription
  ),
  behind as materialized (
    select b.subscription, b.deliveries, b.oldest_id
    from unnest($4::int[], $5::bigint[], $6::bigint[]) as b(subscription, deliveries, oldest_id)
  ),
  expiring as materialized (
    select x.subscription, x.deliveries from unnest($7::int[], $8::bigint[]) as x(subscription, deliveries)
  ),
  counted as (
    select q.no, q.name, q.via, q.shown, b.oldest_id as behind_id, coalesce(x.deliveries, 0) as expiring,
      coalesce(r.runs, 0) + coalesce(m.deliveries, 0) + coalesce(a.deliveries, 0) + coalesce(o.owned, 0)
        + coalesce(b.deliveries, 0) as waiting,
      coalesce(a.delayed, 0) as delayed, coalesce(a.retries, 0) as retries, coalesce(o.deliveries, 0) as leased
    from queue q
    left join ready r on r.subscription = q.no
    left join more m on m.subscription = q.no
    left join aside a on a.subscription = q.no
    left join leased o on o.subscription = q.no
    left join behind b on b.subscription = q.no
    left join expiring x on x.subscription = q.no
  )
  select case when c.shown then c.name else $2 end as name, case when c.shown then min(c.via) end as via,
    sum(c.waiting)::float8 as waiting, sum(c.delayed)::float8 as delayed, sum(c.retries)::float8 as retries,
    sum(c.leased)::float8 as leased, sum(c.expiring)::float8 as expiring, greatest(max(w.seconds), 0)::float8 as "oldestSeconds"
  from counted c
  left join lateral (
    select max(date_part('epoch', __schema__.clock() - greatest(e.created_at, e.run_at))) as seconds
    from (
      (select r.first_id as id
       from __schema__.runs r
       where r.subscription = c.no and r.state = 'ready'
       order by r.first_id
       limit $3)
      union all
      select c.behind_id
    ) as o
    join __schema__.events e on e.id = o.id
  ) as w on true
  group by c.shown, case when c.shown then c.no end, case when c.shown then c.name else $2 end
  order by c.shown desc, min(c.no)`,
)

/** Transactions go by the real time, which tests do not move. */
const restStatement = defineStatement(
  'stats_rest',
  `select
    (select count(*) from __schema__.dead_letters l where l.redriven_at is null) as "deadLetters",
    coalesce((
      select max(date_part('epoch', clock_timestamp() - a.xact_start))
      from pg_stat_activity a
      where a.datname = current_database() and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
    ), 0)::float8 as "oldestTransactionSeconds"`,
)
