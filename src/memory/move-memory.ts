import { numberArray } from '../db/array.ts'
import { type Connection, type Database, defineStatement } from '../db/database.ts'
import { lockAdmissions } from '../engine/admit-statements.ts'
import { type MemoryToken, memoryHeldMs } from './claim-memory.ts'
import { undoStatement } from './complete-memory.ts'

/** An event that a queue has in memory, and the lane it is in. */
export type PlacedEvent = readonly [id: number, laneKey: string | null]

/** Events that are under way in this process: their runs are leased to it from the start. */
export interface MemoryAdoption {
  readonly ids: readonly number[]
  readonly token: number
  readonly worker: number
  readonly leaseMs: number
}

export interface MovePortion extends MemoryToken {
  readonly adoption?: MemoryAdoption
  /** Whole lanes. */
  readonly ids: readonly number[]
  /** How many events the queue has in memory afterwards. */
  readonly left: number
  /** How many events are copied by one statement. */
  readonly rowsMax: number
}

/** How long a move waits for one lock: then it is tried again, and meanwhile nobody waits for what it has locked itself. */
const lockTimeoutMs = 1_000
/** Rolls back the transaction. */
const notOurs = new Error('Another process has the queue')

/** The unsettled events of a queue as last persisted, oldest first. None, if another process has the queue. */
export async function listMemory(
  db: Database,
  { subscription, token }: MemoryToken,
): Promise<readonly PlacedEvent[]> {
  return db.run<[id: number, laneKey: string | null]>(listStatement(db), [subscription, token])
}

/**
 * Moves some of what a queue had in memory to the durable tables. Returns how many deliveries; undefined: another process
 * has the queue. Each delivery keeps its attempts, failures and time; lanes keep their order, and go before what was stored of them:
 * see memory/memory-intake.ts, which lets nothing into memory while its lane has anything in the database. So a lane has to be moved
 * as a whole: a part of it would be followed by what was stored of it. Fails with a lock timeout (`isLocked`) while a
 * handler's transaction that completes one of them is open.
 */
export async function movePortion(db: Database, portion: MovePortion): Promise<number | undefined> {
  try {
    return await db.transaction((tx) => moveIn(tx, db, portion), { lockTimeoutMs })
  } catch (error) {
    if (error === notOurs) return undefined
    throw error
  }
}

async function moveIn(tx: Connection, db: Database, portion: MovePortion): Promise<number> {
  const { subscription, token, left, adoption } = portion
  const stored = await storeUnsettled(tx, db, portion)
  // The one writer of lanes is admit. What it has done is seen by the statements after this one.
  if (stored.length > 0) await tx.run(lockAdmissions(db), [])
  // After all that can take long: while this transaction has the queue's row, nobody can renew the claim.
  const held = await tx.run(holdStatement(db), [subscription, token, memoryHeldMs, left])
  if (held.length === 0) throw notOurs
  if (stored.length === 0) return 0
  const [positions] = await tx.run<[first: number, second: number]>(positionsStatement(db), [])
  const [first, second] = positions as [number, number]
  await tx.run(requeueStatement(db), [subscription, numberArray(stored), second])
  await tx.run(sendStatement(db), [
    ...[subscription, numberArray(stored), first, token],
    ...[numberArray(adoption?.ids ?? []), adoption?.token ?? null, adoption?.worker ?? null],
    adoption?.leaseMs ?? 0,
  ])
  return stored.length
}

/** Stores the events that no transaction has completed. */
async function storeUnsettled(
  tx: Connection,
  db: Database,
  { subscription, token, ids, rowsMax }: MovePortion,
): Promise<number[]> {
  const stored: number[] = []
  for (let from = 0; from < ids.length; from += rowsMax) {
    const some = numberArray(ids.slice(from, from + rowsMax))
    const open = await tx.run<[id: number]>(claimStatement(db), [subscription, token, some])
    const unsettled = numberArray(open.map(([id]) => id))
    await tx.run(undoStatement(db), [subscription, unsettled])
    for (const [id] of await tx.run<[id: number]>(storeStatement(db), [subscription, unsettled]))
      stored.push(id)
  }
  return stored
}

/** Forgets a queue that is no longer kept in memory; false: another process has it. */
export async function forgetMemory(db: Database, { subscription, token }: MemoryToken): Promise<boolean> {
  return (await db.once(forgetStatement(db), [subscription, token], {})).length > 0
}

/** While the caller has the queue, nobody adds events to it. */
const listStatement = defineStatement(
  'list_memory',
  `select m.event_id, m.lane_key
  from __schema__.memory_queues q
  join __schema__.memory_events m on m.subscription = q.subscription and m.event_id > q.checkpoint
  where q.subscription = $1 and q.token = $2
  order by m.event_id`,
)

/** The fence: nobody else claims the queue until the transaction is done. */
const holdStatement = defineStatement(
  'hold_memory',
  `update __schema__.memory_queues q
  set held_until = __schema__.clock() + $3 * interval '1 ms', depth = $4
  where q.subscription = $1 and q.token = $2
  returning 1`,
)

/**
 * Those that no transaction has completed. Waits for transactions that have completed one and are still open: what they
 * commit must not run again. The rows are taken back at once.
 */
const claimStatement = defineStatement(
  'claim_unsettled_memory',
  `insert into __schema__.memory_settled (subscription, event_id, token)
  select $1, m.event_id, $2
  from __schema__.memory_events m
  where m.subscription = $1 and m.event_id = any($3::bigint[])
  order by m.event_id
  on conflict do nothing
  returning event_id`,
)

const storeStatement = defineStatement(
  'store_memory',
  `insert into __schema__.events as e (id, type, title, description, payload, ordering_key, version, source, "timestamp",
    correlation_id, causation_id, traceparent, max_retries, attributes, owed, created_at)
  select m.event_id, m.type, m.title, m.description, m.payload, m.ordering_key, m.version, m.source, m."timestamp",
    m.correlation_id, m.causation_id, m.traceparent, m.max_retries, m.attributes, array[m.subscription], m.created_at
  from __schema__.memory_events m
  where m.subscription = $1 and m.event_id = any($2::bigint[])
  order by m.event_id
  on conflict (id) do update   -- another memory queue was owed it, too
  set owed = array(select distinct o.no from unnest(e.owed || excluded.owed) as o(no) order by o.no)
  returning e.id`,
)

/** Beyond all that lanes have used so far: for what comes from memory, and for what goes behind it. */
const positionsStatement = defineStatement(
  'lane_positions',
  `select nextval('__schema__.admissions') << 20, nextval('__schema__.admissions') << 20`,
)

/**
 * Puts what the database has of the lanes that are moved behind a place that is free for what comes from memory. Their runs
 * have not begun, or their holder has vanished: so nobody holds them. A blocked run, which waits for an operator, stays.
 */
const requeueStatement = defineStatement(
  'requeue_memory',
  `with lane as materialized (
    select distinct m.lane_key as ordering_key
    from __schema__.memory_events m
    where m.subscription = $1 and m.event_id = any($2::bigint[]) and m.lane_key is not null
  ),
  run as (
    delete from __schema__.runs r
    using lane l
    where r.subscription = $1 and r.ordering_key = l.ordering_key and r.state not in ('delayed', 'held', 'blocked')
    returning r.ordering_key, 0::bigint as position, r.event_ids, r.concurrency_key, r.tags, r.expires_at,
      r.max_failures, r.attempts
  ),
  noted as (   -- the gates that they had passed have room again
    insert into __schema__.inbox (subscription, ordering_keys, positions, concurrency_keys)
    select $1, array[r.ordering_key], array[0], array[r.concurrency_key]
    from run r
    where r.concurrency_key is not null
  ),
  chunk as (
    delete from __schema__.lane_queue q
    using lane l
    where q.subscription = $1 and q.ordering_key = l.ordering_key
    returning q.ordering_key, q.position, q.event_ids, q.concurrency_key, q.tags, q.expires_at, q.max_failures, q.attempts
  )
  insert into __schema__.lane_queue (subscription, ordering_key, position, event_ids, concurrency_key, tags, expires_at,
    max_failures, attempts)
  select $1, f.ordering_key,
    $3::bigint + row_number() over (partition by f.ordering_key order by f.position),
    f.event_ids, f.concurrency_key, f.tags, f.expires_at, f.max_failures, f.attempts
  from (select * from run union all select * from chunk) as f`,
)

/**
 * A lane has one run, whose head may have been tried and may have to wait; what follows is queued in chunks as long as
 * a run. Of what has no lane, each that was tried has a run of its own. What was out when its process vanished, and known
 * to be, is a lease that has ended: the reclaim charges it, and buries it if that was once too often. What is under way in
 * this process is leased to it, and goes on.
 */
const sendStatement = defineStatement(
  'send_memory',
  `with taken as materialized (
    delete from __schema__.memory_events m
    where m.subscription = $1 and m.event_id = any($2::bigint[])
    returning m.event_id, m.lane_key, m.attempts, m.failures,
      case when not m.is_begun and m.due_at > __schema__.clock()
        then least(m.due_at, __schema__.clock() + m.wait_ms * interval '1 ms') end as due_at, m.is_begun, m.last_error,
      coalesce(m.last_error_at, __schema__.clock()) as tried_at
  ),
  lease as (
    select t.event_id, l.token, l.worker, l.lease_ms, __schema__.clock() as at,
      __schema__.clock() + l.lease_ms * interval '1 ms' as until, 1::smallint as granted, array[t.event_id] as begun
    from taken t
    cross join lateral (
      select $6::bigint as token, $7::int as worker, $8::int as lease_ms where t.event_id = any($5::bigint[])
      union all
      select $4::bigint, null, 0 where t.is_begun and t.event_id <> all($5::bigint[])
    ) as l
  ),
  loose as (
    select t.*, a.alone, row_number() over (partition by a.alone order by t.event_id) - 1 as place
    from taken t
    left join lease l on l.event_id = t.event_id
    cross join lateral (select t.attempts > 0 or t.due_at is not null or l.event_id is not null as alone) as a
    where t.lane_key is null
  ),
  loose_sent as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, due_at, attempts, failures, token, worker, leased_at,
      leased_until, lease_ms, granted, begun)
    select $1, (case when min(e.token) is not null then 'leased' when min(l.due_at) is null then 'ready' else 'deferred' end)
        ::__schema__.run_state,
      array_agg(l.event_id order by l.event_id), min(l.event_id), min(l.due_at), max(l.attempts), max(l.failures),
      min(e.token), min(e.worker), min(e.at), min(e.until), min(e.lease_ms), min(e.granted), min(e.begun)
    from loose l
    left join lease e on e.event_id = l.event_id
    group by l.alone, case when l.alone then l.place else l.place / 200 end
  ),
  placed as (
    select t.*, row_number() over (partition by t.lane_key order by t.event_id) - 1 as place
    from taken t
    where t.lane_key is not null
  ),
  chunk as materialized (
    select p.lane_key, p.place / 50 as chunk, $3::bigint + p.place / 50 + 1 as position,
      array_agg(p.event_id order by p.event_id) as event_ids,
      bool_or(r.id is not null) as is_blocked
    from placed p
    left join __schema__.runs r on r.subscription = $1 and r.ordering_key = p.lane_key and r.state = 'blocked'
    group by p.lane_key, p.place / 50
  ),
  lanes_sent as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, ordering_key, position, due_at, attempts,
      failures, token, worker, leased_at, leased_until, lease_ms, granted, begun)
    select $1,
      (case when e.token is not null then 'leased' when h.due_at is null then 'ready' else 'deferred' end)::__schema__.run_state,
      c.event_ids, h.event_id, c.lane_key, c.position, h.due_at, h.attempts, h.failures, e.token, e.worker, e.at, e.until,
      e.lease_ms, e.granted, e.begun
    from chunk c
    join placed h on h.lane_key = c.lane_key and h.place = 0
    left join lease e on e.event_id = h.event_id
    where c.chunk = 0 and not c.is_blocked
  ),
  lanes_queued as (
    insert into __schema__.lane_queue (subscription, ordering_key, position, event_ids)
    select $1, c.lane_key, c.position, c.event_ids
    from chunk c
    where c.chunk > 0 or c.is_blocked
  )
  insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, finished_at, next_at, reason)
  select t.event_id, $1, (case when t.last_error is null then 'snoozed' else 'retried' end)::__schema__.settlement,
    t.attempts, t.failures, t.tried_at, t.due_at, t.last_error
  from taken t
  where t.attempts > 0`,
)

const forgetStatement = defineStatement(
  'forget_memory',
  `with held as (
    delete from __schema__.memory_queues q
    where q.subscription = $1 and q.token = $2
    returning q.subscription
  ),
  gone as (
    delete from __schema__.memory_events m using held h where m.subscription = h.subscription
  ),
  forgotten as (
    delete from __schema__.memory_settled t using held h where t.subscription = h.subscription
  )
  select 1 from held`,
)
