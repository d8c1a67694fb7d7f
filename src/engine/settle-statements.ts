import { defineStatement } from '../db/database.ts'

/**
 * Settles deliveries of leased runs, whatever became of each:
 *
 *   given    what the caller says of each delivery
 *   held     the runs whose token is still the caller's, locked: the fence. Everything below works on these rows
 *   granted  the deliveries of these runs that may be settled; of a lane only its head
 *   settled = given ∩ granted ─┬▶ audit            one record per attempt
 *                              ├▶ queue_tallies    one row per queue
 *                              └▶ dead_letters     the buried ones
 *
 *   left_over = held - settled ─┬─ nothing left ────────────────▶ gone     the run is deleted
 *                               ├─ a lane, head not finished ───▶ kept     deferred or ready, with all deliveries behind it
 *                               ├─ a lane, head buried, blocks ─▶ kept     blocked
 *                               └─ the rest ────────────────────▶ kept     leased or ready
 *   settled, not finished, not of a lane ───────────────────────▶ retried  a run of its own: deferred, or ready if released
 *   left_over: a lane or a gate has room ───────────────────────▶ inbox    a note for admit, without a lock
 *
 * Tables are reached by `= any($n)` and joined by hash: the planner expects ten elements in every array, and would compare
 * each of a thousand settlements with each run. A token outlives a reclaim, so a late settlement counts until another worker
 * has leased the run. After a reclaim the attempt is counted already, and so is its failure: only a success takes it back.
 * A delivery that an operator cancelled while it was leased (`cancel_requested`) ends here instead of waiting for another
 * attempt, because the next worker would not know. A completion or a burial that came first stands.
 *
 * Returns the positions of those whose lease the caller does not hold.
 */
export const settleStatement = defineStatement(
  'settle',
  `with given as materialized (
    select g.position, g.run_id, g.token, g.event_id, coalesce(g.settlement, 'completed') as settlement,
      __schema__.clock() + g.after_ms * interval '1 ms' as next_at, coalesce(g.failures, 0) as failures, g.reason,
      g.started_after_ms, g.execution_ms, g.status_code, g.cause
    from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::__schema__.settlement[], $5::bigint[], $6::int[],
        $7::text[], $8::int[], $9::int[], $10::smallint[], $11::__schema__.burial_cause[])
      with ordinality as g(run_id, token, event_id, settlement, after_ms, failures, reason, started_after_ms,
        execution_ms, status_code, cause, position)
  ),
  held as materialized (
    select r.id, r.subscription, r.state, r.event_ids, r.first_id, r.ordering_key, r.position, r.concurrency_key,
      r.tags, r.expires_at, r.max_failures, r.attempts, r.failures, r.suspect, r.token, r.worker, r.leased_at, r.granted,
      r.begun, r.cancelled
    from __schema__.runs r
    where r.id = any($1) and r.token = any($2)
    order by r.id
    for update
  ),
  granted as materialized (
    select h.id, u.event_id, h.token, h.subscription, h.worker, h.leased_at, h.ordering_key is not null as lane,
      case when u.place = 1 then h.attempts else 0 end as attempts_before,
      case when u.place = 1 then h.failures else 0 end as failures_before,
      case when h.state = 'leased' or h.begun is null or u.event_id <> all(h.begun) then 1 else 0 end as counts,
      coalesce(u.event_id = any(h.cancelled), false) as cancel_requested
    from held h
    cross join lateral unnest(
      case when h.ordering_key is null then h.event_ids[1:h.granted] else h.event_ids[1:least(h.granted, 1)] end)
      with ordinality as u(event_id, place)
  ),
  settled as materialized (
    select g.position, g.run_id, g.event_id, case when t.stopped then 'cancelled' else g.settlement end as settlement,
      case when not t.stopped then g.next_at end as next_at,
      case when h.counts = 0 and g.settlement <> 'completed' then greatest(g.failures, h.failures_before)
        else g.failures end as failures, g.reason, g.cause, g.started_after_ms,
      g.execution_ms, g.status_code, h.subscription, h.worker, h.token, h.leased_at, h.lane, t.stopped,
      t.stopped or g.settlement in ('completed', 'buried', 'cancelled') as final,
      h.attempts_before + case when g.settlement = 'released' then 0 else h.counts end as attempt
    from given g
    join granted h on h.event_id = g.event_id and h.id = g.run_id and h.token = g.token
    cross join lateral (select h.cancel_requested and g.settlement in ('retried', 'snoozed', 'released') as stopped) as t
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, worker, token, leased_at,
      started_at, finished_at, next_at, status_code, execution_ms, reason, cause)
    select s.event_id, s.subscription, s.settlement, s.attempt, s.failures, s.worker, s.token, s.leased_at,
      s.leased_at + s.started_after_ms * interval '1 ms', __schema__.clock(), s.next_at, s.status_code,
      s.execution_ms, s.reason, s.cause
    from settled s
  ),
  tallied as (
    insert into __schema__.queue_tallies (subscription, processed, errors, timed, execution_ms, last_id)
    select s.subscription, count(*) filter (where s.settlement = 'completed'),
      count(*) filter (where s.settlement <> 'completed'), count(s.execution_ms), coalesce(sum(s.execution_ms), 0),
      max(s.event_id) filter (where s.settlement = 'completed')
    from settled s
    where s.settlement in ('completed', 'retried', 'buried')
    group by s.subscription
  ),
  buried as (
    insert into __schema__.dead_letters (id, event_id, subscription, kind, reason, cause, attempts, failures,
      event_snapshot, subscription_snapshot, buried_at)
    select __schema__.uuid_v7(), s.event_id, s.subscription, 'buried', coalesce(s.reason, ''), s.cause, s.attempt, s.failures,
      __schema__.event_document(e), __schema__.subscriber_document(p), __schema__.clock()
    from settled s
    join __schema__.events e on e.id = s.event_id
    join __schema__.subscriptions p on p.no = s.subscription
    where s.settlement = 'buried' and e.id = any($3)
  ),
  tally as materialized (
    select s.run_id, count(*) as settled,
      count(*) filter (where s.final) as finished,
      bool_or(s.stopped) as stopped,
      max(s.event_id) filter (where not s.final) as waiting_id,
      max(s.event_id) filter (where s.settlement = 'buried') as buried_id
    from settled s
    group by s.run_id
  ),
  -- The deliveries that each run is left with. The run of a lane keeps its failed head.
  left_over as materialized (
    select h.id, h.subscription, h.state, h.first_id, h.ordering_key, h.position, h.concurrency_key, h.suspect,
      h.token, h.granted - t.settled as granted, t.waiting_id,
      t.buried_id, b.blocks, c.returns,
      case
        when c.returns and h.cancelled is not null then array(
          select u.event_id from unnest(h.event_ids[t.finished + 1:]) with ordinality as u(event_id, place)
          where u.event_id <> all(h.cancelled)
          order by u.place)
        when h.ordering_key is not null then h.event_ids[t.finished + 1:]
        when t.settled = cardinality(h.event_ids) then '{}'
        else array(
          select u.event_id from unnest(h.event_ids) with ordinality as u(event_id, place)
          where u.event_id not in (select s.event_id from settled s where s.run_id = h.id)
          order by u.place)
      end as event_ids
    from held h
    join tally t on t.run_id = h.id
    join __schema__.subscriptions p on p.no = h.subscription
    cross join lateral (
      select h.ordering_key is not null and t.buried_id is not null and p.on_exhausted = 'block' as blocks
    ) as b
    -- The holder of a lane stops at a head that has not succeeded, so it gives up the whole lane.
    cross join lateral (
      select h.ordering_key is not null and (t.waiting_id is not null or t.stopped or b.blocks) as returns
    ) as c
  ),
  -- The cancelled deliveries of such a lane behind its head end here: the next holder would not know of them.
  stopped_behind as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, finished_at, reason)
    select u.event_id, h.subscription, 'cancelled', 0, 0, __schema__.clock(), 'cancelled'
    from left_over l
    join held h on h.id = l.id
    join tally t on t.run_id = l.id
    cross join lateral unnest(h.event_ids[t.finished + 1:]) as u(event_id)
    where l.returns and u.event_id = any(h.cancelled)
  ),
  gone as (
    delete from __schema__.runs r
    using left_over l
    where r.id = l.id and r.id = any($1) and l.event_ids = '{}' and not l.blocks
  ),
  kept as (
    update __schema__.runs r
    set state = l.state, event_ids = l.event_ids, due_at = l.next_at,
      -- An indexed column: while the run stays leased it does not matter, and an update that leaves it alone stays on its page.
      first_id = case when l.state = 'leased' then r.first_id else coalesce(l.event_ids[1], r.first_id) end,
      attempts = coalesce(l.attempt, 0), failures = coalesce(l.failures, 0),
      suspect = l.suspect and l.waiting_id is not null,
      token = case when l.state = l.state_before and l.granted > 0 then r.token end,
      granted = case when l.state = l.state_before and l.granted > 0 then l.granted end,
      blocked_by = case when l.blocks then l.buried_id end
    from (
      select o.id, case when not o.returns then o.state end as state_before, o.event_ids, o.suspect, o.granted,
        o.waiting_id, o.blocks, o.buried_id, s.next_at, s.attempt, s.failures,
        (case
          when o.blocks then 'blocked'
          when s.settlement = 'released' then 'ready'
          when s.settlement is not null then 'deferred'
          when o.returns then 'ready'
          when o.state = 'leased' and o.granted > 0 then 'leased'
          else 'ready'
        end)::__schema__.run_state as state
      from left_over o
      left join settled s on s.run_id = o.id and s.event_id = o.waiting_id and s.lane
    ) as l
    where r.id = l.id and r.id = any($1) and (l.event_ids <> '{}' or l.blocks)
  ),
  retried as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, concurrency_key, tags, due_at, expires_at,
      max_failures, attempts, failures, suspect)
    select h.subscription, (case when s.settlement <> 'released' then 'deferred'
        when h.concurrency_key is null then 'ready' else 'gated' end)::__schema__.run_state,
      array[s.event_id], s.event_id, h.concurrency_key, h.tags, s.next_at, h.expires_at, h.max_failures,
      s.attempt, s.failures, h.suspect
    from settled s
    join held h on h.id = s.run_id
    where h.ordering_key is null and not s.final
  ),
  noted as (
    insert into __schema__.inbox (subscription, ordering_keys, positions, concurrency_keys)
    select l.subscription,
      array_agg(case when l.event_ids = '{}' and not l.blocks then l.ordering_key end),
      array_agg(l.position), array_agg(l.concurrency_key)
    from left_over l
    where (l.ordering_key is not null and l.event_ids = '{}' and not l.blocks)
      or (l.concurrency_key is not null and (l.event_ids = '{}' or l.waiting_id is not null))
    group by l.subscription
  )
  select g.position from given g where g.position not in (select s.position from settled s)`,
)

/** The worker's own settlement: what a reclaim or an operator recorded of the attempt is none. */
export const findSettledStatement = defineStatement(
  'find_settled',
  `select a.settlement
  from __schema__.audit a
  where a.event_id = $1 and a.subscription = $2 and a.token = $3
    and a.settlement not in ('lease_expired', 'reset', 'released')
    and a.cause is distinct from 'lease_expired'
  order by a.id desc
  limit 1`,
)

export const findReclaimedStatement = defineStatement(
  'find_reclaimed',
  `select r.id
  from __schema__.runs r
  where r.subscription = $1 and r.state = 'ready' and r.first_id = $2 and r.token = $3`,
)

export const findIsolatedStatement = defineStatement(
  'find_isolated',
  `select r.id
  from __schema__.runs r
  where r.subscription = $1 and r.state = 'leased' and r.first_id = $2 and r.token = $3`,
)

export const isCompletedStatement = defineStatement(
  'is_completed',
  `select 1 from __schema__.audit a
  where a.event_id = $1 and a.subscription = $2 and a.token = $3 and a.settlement = 'completed'`,
)
