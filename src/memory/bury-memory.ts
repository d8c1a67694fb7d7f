import { type Database, defineStatement } from '../db/database.ts'
import { lockAdmissions } from '../engine/admit-statements.ts'
import type { MemoryDeliveryName } from './claim-memory.ts'

/** Of an event that is persisted. */
export interface BuryMemoryRequest extends MemoryDeliveryName {
  /** The lane that stops at it, which from now on is kept in the durable tables; null: none. */
  readonly stopsLane: string | null
  readonly attempt: number
  readonly failures: number
  readonly reason: string
  /** The number of the worker that attempted it. */
  readonly worker: number
  readonly startedAfterMs: number
  readonly executionMs: number
}

/** `'not found'`: the queue has no such event any more; `'not ours'`: another process has the queue. */
export type BuryMemoryAnswer = 'buried' | 'not found' | 'not ours'

/** Makes a dead letter of a delivery, which is durable from now on. */
export async function buryMemory(db: Database, request: BuryMemoryRequest): Promise<BuryMemoryAnswer> {
  const { subscription, token, eventId, stopsLane, attempt, failures, reason, worker } = request
  const values = [subscription, token, eventId, stopsLane, attempt, failures, reason, worker]
  const timing = [request.startedAfterMs, request.executionMs]
  return db.transaction(async (tx) => {
    if (stopsLane !== null) {
      // The one writer of lanes is admit. What it has done is seen by the statements after this one.
      await tx.run(lockAdmissions(db), [])
      await tx.run(queueBehindStatement(db), [subscription, token, stopsLane])
    }
    const [row] = await tx.run<[isFound: boolean]>(buryStatement(db), [...values, ...timing])
    if (row === undefined) return 'not ours'
    return row[0] ? 'buried' : 'not found'
  })
}

/**
 * The lane may have a run in the durable tables that waits for what is in memory. It has not begun, and is made anew once the
 * lane goes on: its deliveries may differ in kind from those in memory, so they cannot share a run.
 */
const queueBehindStatement = defineStatement(
  'queue_behind_memory',
  `with held as materialized (   -- the queue, if it is still the caller's: nobody else claims it until the statement is done
    select q.subscription
    from __schema__.memory_queues q
    where q.subscription = $1 and q.token = $2
    for update
  ),
  run as (
    delete from __schema__.runs r
    using held h
    where r.subscription = h.subscription and r.ordering_key = $3 and r.state not in ('delayed', 'held', 'blocked')
    returning r.subscription, r.ordering_key, coalesce(r.position, 1) as position, r.event_ids, r.concurrency_key, r.tags,
      r.expires_at, r.max_failures, r.attempts
  ),
  noted as (
    insert into __schema__.inbox (subscription, ordering_keys, positions, concurrency_keys)
    select r.subscription, array[r.ordering_key], array[0], array[r.concurrency_key]
    from run r
    where r.concurrency_key is not null
  )
  insert into __schema__.lane_queue (subscription, ordering_key, position, event_ids, concurrency_key, tags, expires_at,
    max_failures, attempts)
  select r.subscription, r.ordering_key, r.position, r.event_ids, r.concurrency_key, r.tags, r.expires_at, r.max_failures,
    r.attempts
  from run r`,
)

/** Where nothing is taken, the event was buried before and the answer was lost, or was moved: nothing is recorded twice. */
const buryStatement = defineStatement(
  'bury_memory',
  `with held as materialized (   -- the queue, if it is still the caller's: nobody else claims it until the statement is done
    select q.subscription
    from __schema__.memory_queues q
    where q.subscription = $1 and q.token = $2
    for update
  ),
  taken as (
    delete from __schema__.memory_events m
    using held h
    where m.subscription = $1 and (m.event_id = $3 or m.lane_key = $4)
    returning m.*
  ),
  stored as (
    insert into __schema__.events as e (id, type, title, description, payload, ordering_key, version, source, "timestamp",
      correlation_id, causation_id, traceparent, max_retries, attributes, owed, created_at)
    select m.event_id, m.type, m.title, m.description, m.payload, m.ordering_key, m.version, m.source, m."timestamp",
      m.correlation_id, m.causation_id, m.traceparent, m.max_retries, m.attributes, array[m.subscription], m.created_at
    from taken m
    on conflict (id) do update   -- another memory queue was owed it, too
    set owed = array(select distinct o.no from unnest(e.owed || excluded.owed) as o(no) order by o.no)
    returning e.id, e as event
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, worker, token, leased_at,
      started_at, finished_at, execution_ms, reason)
    select s.id, $1, 'buried', $5, $6, $8, $2,
      __schema__.clock() - ($9::int + $10::int) * interval '1 ms', __schema__.clock() - $10 * interval '1 ms',
      __schema__.clock(), $10, $7
    from stored s
    where s.id = $3
  ),
  buried as (
    insert into __schema__.dead_letters (id, event_id, subscription, kind, reason, attempts, failures, event_snapshot,
      subscription_snapshot, buried_at)
    select __schema__.uuid_v7(), s.id, p.no, 'buried', $7, $5, $6, __schema__.event_document(s.event),
      __schema__.subscriber_document(p), __schema__.clock()
    from stored s
    join __schema__.subscriptions p on p.no = $1
    where s.id = $3
  ),
  stopped as (
    insert into __schema__.runs as r (subscription, state, event_ids, first_id, ordering_key, blocked_by)
    select $1, 'blocked', array(select t.event_id from taken t where t.event_id <> $3 order by t.event_id),
      s.id, $4, s.id
    from stored s
    where s.id = $3 and $4 is not null
    -- It has stopped before: what an operator has to decide about stays one run.
    on conflict (subscription, ordering_key) where ordering_key is not null and state not in ('delayed', 'held') do update
    set event_ids = excluded.event_ids || r.event_ids, first_id = excluded.first_id, blocked_by = excluded.blocked_by
  )
  select exists (select 1 from taken t where t.event_id = $3) from held`,
)
