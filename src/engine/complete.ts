import { numberArray } from '../db/array.ts'
import { type Database, defineStatement } from '../db/database.ts'
import { tallied } from './tally-sql.ts'

/** A whole run that succeeded: what took how long, in the order of its deliveries. */
export interface CompleteRequest {
  readonly runId: number
  readonly token: number
  readonly startedAfterMs: readonly number[]
  readonly executionMs: readonly number[]
}

/**
 * Completes whole unkeyed runs, the common case, at half the cost of settling their deliveries one by one:
 * the run's own row says what they are. Returns the positions of those it completed; the others are for `settle`
 * to judge. Positions, not ids: a run may be given twice, by the lease that was lost and by the one that came after.
 */
export async function complete(db: Database, requests: readonly CompleteRequest[]): Promise<number[]> {
  const values = [
    numberArray(requests.map((request) => request.runId)),
    numberArray(requests.map((request) => request.token)),
    requests.map((request) => numberArray(request.startedAfterMs)),
    requests.map((request) => numberArray(request.executionMs)),
    numberArray(requests.map((request) => request.executionMs.reduce((sum, ms) => sum + ms, 0))),
  ]
  const rows = await db.once<[position: number]>(completeStatement(db), values, plans)
  return rows.map(([position]) => position)
}

/** By `= any($1)` and hash, as in settle: a partial index would tempt the planner to read all leases for each. */
const plans = { indexPlans: true, hashJoins: true } as const

const completeStatement = defineStatement(
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

/** The head of a lane that succeeded. */
export interface CompleteHead {
  readonly runId: number
  readonly token: number
  readonly eventId: number
  /** As the lease gave them out; they can't have changed while its token holds. */
  readonly attempt: number
  readonly failures: number
  readonly startedAfterMs: number
  readonly executionMs: number
}

/**
 * Completes heads of lanes, the other common case: the run goes on without its head, or is gone and leaves a
 * note that its lane is free. Returns the positions of those it did not complete, for `settle` to judge.
 */
export async function completeHeads(db: Database, heads: readonly CompleteHead[]): Promise<number[]> {
  const values = [
    numberArray(heads.map((head) => head.runId)),
    numberArray(heads.map((head) => head.token)),
    numberArray(heads.map((head) => head.eventId)),
    numberArray(heads.map((head) => head.attempt)),
    numberArray(heads.map((head) => head.failures)),
    numberArray(heads.map((head) => head.startedAfterMs)),
    numberArray(heads.map((head) => head.executionMs)),
  ]
  const rows = await db.once<[position: number]>(completeHeadsStatement(db), values, plans)
  return rows.map(([position]) => position)
}

/** What a head is recognised by. The state is wrapped, or the planner would go through all leases to find it. */
const isGivenHead = `r.id = any($1) and r.id = g.run_id and r.token = g.token and r.event_ids[1] = g.event_id
      and coalesce(r.state, 'ready') = 'leased' and r.ordering_key is not null and r.concurrency_key is null`

const ofHead = `g.position, g.event_id, g.attempt, g.failures, g.token, g.started_after_ms, g.execution_ms,
      r.subscription, r.worker, r.leased_at`

/** `first_id` is left alone while the run stays leased: it is indexed, and the update would leave its page. */
const completeHeadsStatement = defineStatement(
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
    where ${isGivenHead} and r.several
    returning ${ofHead}
  ),
  gone as (
    delete from __schema__.runs r
    using given g
    where ${isGivenHead} and not r.several
    returning ${ofHead}, r.ordering_key, r.position as lane_position
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
  ${tallied(`(select c.*, 'completed' as settlement from completed c)`)},
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
