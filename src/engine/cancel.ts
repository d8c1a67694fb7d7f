import { numberArray, textArray } from '../db/array.ts'
import { type Connection, type Database, defineStatement } from '../db/database.ts'
import { checkEventIds } from '../domain/id.ts'
import { PosthornError } from '../errors.ts'
import type { Admitter } from './admit.ts'
import { admitArrivals, roundsMax, takeOut, untilNextRound } from './take-out.ts'

export interface CancelRequest {
  readonly eventIds: readonly number[]
  /** Only the deliveries of this subscription; null: all. */
  readonly subscription: number | null
  readonly reason: string
}

/** Whole rows of the queues, for whoever knows them: no array has to be searched. */
export interface CancelRowsRequest {
  readonly runIds: readonly number[]
  readonly chunks: readonly ChunkKey[]
  readonly reason: string
}

/** Names a row of `lane_queue`. */
export type ChunkKey = [subscription: number, orderingKey: string, position: number]

export interface Cancelled {
  readonly eventId: number
  readonly subscription: number
  /** In the hands of a worker: one that has begun is told by heartbeat, and settled as its worker sees fit; else it does not begin. */
  readonly told: boolean
}

/**
 * Cancels what waits wherever it is, arrivals included. Throws CANCEL_UNFINISHED if some of it kept moving, or if the
 * database went away halfway: what was cancelled stays so, and doing it again goes on.
 */
export async function cancelEvents(
  db: Database,
  admitter: Admitter,
  request: CancelRequest,
): Promise<Cancelled[]> {
  checkEventIds(request.eventIds)
  const cancelled = new Map<string, Cancelled>()
  const unfinished = (rounds: number, options?: ErrorOptions) =>
    new PosthornError('CANCEL_UNFINISHED', { events: request.eventIds.length, rounds }, options)
  for (let round = 0; round < roundsMax; round++) {
    try {
      await admitArrivals(admitter)
      const hit = await cancel(db, request)
      for (const one of hit) cancelled.set(`${one.eventId}/${one.subscription}`, one)
      if (hit.some(({ told }) => told)) await db.run(tellStatement(db), [])
      if (!(await escaped(db, request))) return [...cancelled.values()]
    } catch (error) {
      // The caller must not take it that nothing was done.
      throw cancelled.size === 0 ? error : unfinished(round + 1, { cause: error })
    }
    await untilNextRound()
  }
  throw unfinished(roundsMax)
}

/**
 * Cancels what waits. The arrays of waiting runs are searched without an index: cancelling is rare, and an
 * index over every waiting delivery would tax every publish. The inbox must be admitted before.
 *
 * What moves to another row while this waits for a lock escapes it: see `cancelEvents`.
 */
export async function cancel(db: Database, request: CancelRequest | CancelRowsRequest): Promise<Cancelled[]> {
  if ('runIds' in request) return cancelRows(db, request)
  const { eventIds, subscription, reason } = request
  const rows = await db.once<CancelRow>(cancelStatement(db), [eventIds, subscription, reason], {})
  return rows.map(([eventId, subscription, told]) => ({ eventId, subscription, told }))
}

async function cancelRows(db: Database, { runIds, chunks, reason }: CancelRowsRequest): Promise<Cancelled[]> {
  const values = [
    numberArray(runIds),
    numberArray(chunks.map(([subscription]) => subscription)),
    textArray(chunks.map(([, orderingKey]) => orderingKey)),
    numberArray(chunks.map(([, , position]) => position)),
    reason,
  ]
  const rows = await db.once<CancelRow>(cancelRowsStatement(db), values, { indexPlans: true })
  return rows.map(([eventId, subscription, told]) => ({ eventId, subscription, told }))
}

/** Whether any of these deliveries still waits, or is leased to somebody who was not told. */
async function escaped(
  db: Database,
  { eventIds, subscription }: Omit<CancelRequest, 'reason'>,
): Promise<boolean> {
  const [row] = await db.run<[escaped: boolean]>(escapedStatement(db), [eventIds, subscription])
  return (row as [boolean])[0]
}

/** What was told to the holder of a run that is a holder no more. */
export type ToldRow = [subscription: number, eventIds: number[]]

/** Ends what has just been taken or handed back and was told to stop: whoever leases it next would not know. */
export async function cancelTold(
  tx: Connection,
  db: { readonly schema: string },
  told: readonly ToldRow[],
): Promise<void> {
  for (const [subscription, eventIds] of told) {
    if (eventIds.length > 0) await tx.run(cancelStatement(db), [eventIds, subscription, 'cancelled'])
  }
}

const cancelStatement = defineStatement(
  'cancel',
  `with ${takeOut({ runs: 'true', stops: 'false' })},
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, finished_at, reason)
    select h.event_id, h.subscription, 'cancelled', h.attempts, h.failures, __schema__.clock(), $3
    from hit h
    where not h.told
  )
  select h.event_id, h.subscription, h.told from hit h order by h.event_id, h.subscription`,
)

/** What somebody else has locked is on its way elsewhere, or under way: it is left to the next call. */
const cancelRowsStatement = defineStatement(
  'cancel_rows',
  `with hit_runs as materialized (
    select r.id, r.subscription, r.state, r.event_ids, r.ordering_key, r.position, r.concurrency_key, r.attempts,
      r.failures
    from __schema__.runs r
    where r.id = any($1::bigint[]) and r.state <> 'leased'
    order by r.id
    for update skip locked
  ),
  hit_chunks as materialized (
    select q.subscription, q.ordering_key, q.position, q.event_ids, q.attempts
    from unnest($2::int[], $3::text[], $4::bigint[]) as g(subscription, ordering_key, position)
    join __schema__.lane_queue q
      on q.subscription = g.subscription and q.ordering_key = g.ordering_key and q.position = g.position
    for update of q skip locked
  ),
  hit as materialized (
    select h.subscription, u.event_id,
      case when u.place = 1 then h.attempts else 0 end as attempts,
      case when u.place = 1 then h.failures else 0 end as failures
    from hit_runs h
    cross join lateral unnest(h.event_ids) with ordinality as u(event_id, place)
    union all
    select h.subscription, u.event_id, h.attempts, 0
    from hit_chunks h
    cross join lateral unnest(h.event_ids) as u(event_id)
  ),
  gone as (
    delete from __schema__.runs r
    where r.id = any(array(select h.id from hit_runs h where h.state <> 'blocked'))
  ),
  -- A blocked lane stays blocked by its head, which is a dead letter.
  emptied as (
    update __schema__.runs r
    set event_ids = '{}', attempts = 0, failures = 0
    where r.id = any(array(select h.id from hit_runs h where h.state = 'blocked'))
  ),
  gone_chunks as (
    delete from __schema__.lane_queue q
    using hit_chunks h
    where q.subscription = h.subscription and q.ordering_key = h.ordering_key and q.position = h.position
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, finished_at, reason)
    select h.event_id, h.subscription, 'cancelled', h.attempts, h.failures, __schema__.clock(), $5
    from hit h
  ),
  noted as (
    insert into __schema__.inbox (subscription, ordering_keys, positions, concurrency_keys)
    select h.subscription, array_agg(h.ordering_key), array_agg(h.position), array_agg(h.concurrency_key)
    from hit_runs h
    where num_nonnulls(h.ordering_key, h.concurrency_key) > 0 and h.state not in ('delayed', 'held', 'blocked')
    group by h.subscription
  )
  select h.event_id, h.subscription, false from hit h`,
)

/** Processes that hold what was cancelled and have not begun it look now. */
const tellStatement = defineStatement(
  'tell_cancelled',
  `select pg_notify('posthorn.' || btrim('__schema__', '"'), 'cancelled')`,
)

const escapedStatement = defineStatement(
  'cancel_escaped',
  `select exists (
      select 1 from __schema__.inbox i
      where i.event_ids && $1::bigint[] and ($2::int is null or i.subscription = $2))
    or exists (
      select 1 from __schema__.lane_queue q
      where q.event_ids && $1 and ($2 is null or q.subscription = $2))
    or exists (
      select 1 from __schema__.runs r
      where r.event_ids && $1 and ($2 is null or r.subscription = $2)
        and (r.state <> 'leased' or exists (
          select 1 from unnest(r.event_ids) as u(event_id)
          where u.event_id = any($1) and u.event_id <> all(coalesce(r.cancelled, '{}')))))`,
)

type CancelRow = [eventId: number, subscription: number, told: boolean]
