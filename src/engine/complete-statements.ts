import { defineStatement } from '../db/database.ts'

/**
 * Completes whole runs without a lane or a gate. Counts them in the statement itself, as the others do: a trigger on the audit
 * costs 1.5 µs for each record. Returns the positions of those that it completed.
 */
export const completeStatement = defineStatement(
  'complete',
  `with done as (
    delete from __schema__.runs r
    using unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[])
      with ordinality as g(run_id, token, started, execution, lasted_ms, position)
    where r.id = any($1) and r.id = g.run_id and r.token = g.token and r.state = 'leased'
      and r.ordering_key is null and r.concurrency_key is null
      and cardinality(r.event_ids) = cardinality(g.started::int[])
    returning g.position, r.subscription, r.event_ids, r.attempts, r.failures, r.worker, r.token, r.leased_at,
      g.started::int[] as started, g.execution::int[] as execution, g.lasted_ms
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, worker, token, leased_at,
      started_at, finished_at, execution_ms)
    select u.event_id, d.subscription, 'completed', case when u.place = 1 then d.attempts else 0 end + 1,
      case when u.place = 1 then d.failures else 0 end, d.worker, d.token, d.leased_at,
      d.leased_at + u.started_after_ms * interval '1 ms', __schema__.clock(), u.execution_ms
    from done d
    cross join lateral unnest(d.event_ids, d.started, d.execution)
      with ordinality as u(event_id, started_after_ms, execution_ms, place)
  ),
  tallied as (
    insert into __schema__.queue_tallies (subscription, processed, errors, timed, execution_ms, last_id)
    select d.subscription, sum(cardinality(d.event_ids)), 0, sum(cardinality(d.event_ids)), sum(d.lasted_ms),
      max(d.event_ids[cardinality(d.event_ids)])
    from done d
    group by d.subscription
  )
  select d.position from done d`,
)

/**
 * Completes heads of lanes. The state is wrapped, or the planner would go through all leases to find a head. `first_id` stays
 * while the run stays leased: it is indexed, and the update would leave its page. Returns the positions of those that it did
 * not complete.
 */
export const completeHeadsStatement = defineStatement(
  'complete_heads',
  `with given as materialized (
    select g.run_id, g.token, g.event_id, g.attempt, g.failures, g.started_after_ms, g.execution_ms, g.position
    from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[], $5::int[], $6::int[], $7::int[])
      with ordinality as g(run_id, token, event_id, attempt, failures, started_after_ms, execution_ms, position)
  ),
  advanced as (
    update __schema__.runs r
    set event_ids = r.event_ids[2:], attempts = 0, failures = 0, suspect = false,
      state = (case when r.granted > 1 then 'leased' else 'ready' end)::__schema__.run_state,
      token = case when r.granted > 1 then r.token end,
      granted = case when r.granted > 1 then r.granted - 1 end,
      first_id = case when r.granted > 1 then r.first_id else r.event_ids[2] end
    from given g
    where r.id = any($1) and r.id = g.run_id and r.token = g.token and r.event_ids[1] = g.event_id
      and coalesce(r.state, 'ready') = 'leased' and r.ordering_key is not null and r.concurrency_key is null and r.several
    returning g.position, g.event_id, g.attempt, g.failures, g.token, g.started_after_ms, g.execution_ms,
      r.subscription, r.worker, r.leased_at
  ),
  gone as (
    delete from __schema__.runs r
    using given g
    where r.id = any($1) and r.id = g.run_id and r.token = g.token and r.event_ids[1] = g.event_id
      and coalesce(r.state, 'ready') = 'leased' and r.ordering_key is not null and r.concurrency_key is null and not r.several
    returning g.position, g.event_id, g.attempt, g.failures, g.token, g.started_after_ms, g.execution_ms,
      r.subscription, r.worker, r.leased_at, r.ordering_key, r.position as lane_position
  ),
  completed as materialized (
    select a.position, a.event_id, a.attempt, a.failures, a.token, a.started_after_ms, a.execution_ms,
      a.subscription, a.worker, a.leased_at
    from advanced a
    union all
    select g.position, g.event_id, g.attempt, g.failures, g.token, g.started_after_ms, g.execution_ms,
      g.subscription, g.worker, g.leased_at
    from gone g
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, worker, token, leased_at,
      started_at, finished_at, execution_ms)
    select c.event_id, c.subscription, 'completed', c.attempt, c.failures, c.worker, c.token, c.leased_at,
      c.leased_at + c.started_after_ms * interval '1 ms', __schema__.clock(), c.execution_ms
    from completed c
  ),
  tallied as (
    insert into __schema__.queue_tallies (subscription, processed, errors, timed, execution_ms, last_id)
    select c.subscription, count(*), 0, count(c.execution_ms), coalesce(sum(c.execution_ms), 0), max(c.event_id)
    from completed c
    group by c.subscription
  ),
  noted as (
    insert into __schema__.inbox (subscription, ordering_keys, positions)
    select g.subscription, array_agg(g.ordering_key), array_agg(g.lane_position)
    from gone g
    group by g.subscription
  )
  select g.position
  from given g
  where (select count(*) from completed) < cardinality($1)
    and g.position not in (select c.position from completed c)`,
)

/**
 * Completes single deliveries without a lane or a gate that workers elsewhere have leased, and answers with their records. What
 * somebody else has locked is left alone, so that nobody waits for another's lease. A token outlives a reclaim: only a lease that is
 * in force counts here.
 */
export const completeEachStatement = defineStatement(
  'complete_each',
  `with held as materialized (
    select r.id, g.position, g.started_after_ms, g.execution_ms, g.status_code
    from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[], $5::int[], $6::smallint[])
      with ordinality as g(run_id, token, event_id, started_after_ms, execution_ms, status_code, position)
    join __schema__.runs r on r.id = g.run_id and r.token = g.token
    where r.id = any($1) and coalesce(r.state, 'ready') = 'leased' and r.ordering_key is null and r.concurrency_key is null
      and r.event_ids = array[g.event_id]
    for update of r skip locked
  ),
  done as (
    delete from __schema__.runs r
    using held h
    where r.id = any(array(select h.id from held h)) and r.id = h.id
    returning h.position, r.subscription, r.event_ids[1] as event_id, r.attempts + 1 as attempt, r.failures, r.worker,
      r.token, r.leased_at, h.started_after_ms, h.execution_ms, h.status_code
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, worker, token, leased_at,
      started_at, finished_at, status_code, execution_ms)
    select d.event_id, d.subscription, 'completed', d.attempt, d.failures, d.worker, d.token, d.leased_at,
      d.leased_at + d.started_after_ms * interval '1 ms', __schema__.clock(), d.status_code, d.execution_ms
    from done d
  ),
  tallied as (
    insert into __schema__.queue_tallies (subscription, processed, errors, timed, execution_ms, last_id)
    select d.subscription, count(*), 0, count(d.execution_ms), coalesce(sum(d.execution_ms), 0), max(d.event_id)
    from done d
    group by d.subscription
  )
  select d.position::int, __schema__.log_id(__schema__.clock(), d.event_id, d.subscription, 2), d.failures,
    (select w.name from __schema__.workers w where w.no = d.worker), __schema__.clock()
  from done d`,
)
