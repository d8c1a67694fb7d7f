/**
 * Counts what a statement has settled: one row per queue, whatever their number. In each statement that records attempts,
 * since a trigger that sees all records costs 1.5 µs for each (decision 0014). `rows` is a CTE with subscription, event_id,
 * settlement and execution_ms.
 */
export const tallied = (rows: string) => `tallied as (
    insert into __schema__.queue_tallies (subscription, processed, errors, timed, execution_ms, last_id)
    select t.subscription, count(*) filter (where t.settlement = 'completed'),
      count(*) filter (where t.settlement <> 'completed'), count(t.execution_ms), coalesce(sum(t.execution_ms), 0),
      max(t.event_id) filter (where t.settlement = 'completed')
    from ${rows} as t
    where t.settlement in ('completed', 'retried', 'lease_expired', 'buried')
    group by t.subscription
  )`
