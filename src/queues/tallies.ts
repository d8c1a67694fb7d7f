import { type Database, defineStatement } from '../db/database.ts'

/** Adds up what queues have done, a bounded batch at a time. True while there is more. */
export async function addUpTallies(db: Database): Promise<boolean> {
  const rows = await db.once<[count: number]>(addUpStatement(db), [talliesMax], { indexPlans: true })
  return rows[0]?.[0] === talliesMax
}

const talliesMax = 5_000

/** The rate is a running mean over about half a minute. */
const addUpStatement = defineStatement(
  'add_up_tallies',
  `with found as materialized (
    select q.id from __schema__.queue_tallies q order by q.id limit $1 for update skip locked
  ),
  taken as (
    delete from __schema__.queue_tallies q
    where q.id = any(array(select f.id from found f))
    returning q.id, q.subscription, q.processed, q.errors, q.timed, q.execution_ms, q.last_id
  ),
  sum as (
    select t.subscription, sum(t.processed) as processed, sum(t.errors) as errors, sum(t.timed) as timed,
      sum(t.execution_ms) as execution_ms,
      (array_agg(t.last_id order by t.id desc) filter (where t.last_id is not null))[1] as last_id,
      coalesce(max(t.id) filter (where t.last_id is not null), 0) as last_tally
    from taken t
    group by t.subscription
  ),
  added as (
    insert into __schema__.queue_counters as c (subscription, processed, errors, timed, execution_ms, last_id,
      last_tally, counted_at)
    select s.subscription, s.processed, s.errors, s.timed, s.execution_ms, s.last_id, s.last_tally, __schema__.clock()
    from sum s
    order by s.subscription
    on conflict (subscription) do update
    set processed = c.processed + excluded.processed, errors = c.errors + excluded.errors, timed = c.timed + excluded.timed,
      execution_ms = c.execution_ms + excluded.execution_ms, 
      last_id = case when excluded.last_tally > c.last_tally then excluded.last_id else c.last_id end,
      last_tally = greatest(excluded.last_tally, c.last_tally),
      counted_at = excluded.counted_at,
      ended_per_second = (
        select c.ended_per_second * e.kept + (excluded.processed + excluded.errors) / e.seconds * (1 - e.kept)
        from (
          select d.seconds, exp(greatest(-d.seconds / 30, -100)) as kept
          from (select greatest(date_part('epoch', excluded.counted_at - c.counted_at), 0.001) as seconds) as d
        ) as e)
  )
  select count(*)::int from taken`,
)
