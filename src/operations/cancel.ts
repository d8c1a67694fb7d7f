import { type Database, defineStatement } from '../db/database.ts'

export interface CancelRequest {
  readonly eventIds: readonly number[]
  /** Only the deliveries of this subscription; null: all. */
  readonly subscription: number | null
  readonly reason: string
}

export interface Cancelled {
  readonly eventId: number
  readonly subscription: number
  /** Under way: its worker is told by heartbeat, and settles it as it sees fit. */
  readonly told: boolean
}

/**
 * Cancels what waits. The arrays of waiting runs are searched without an index: cancelling is rare, and an
 * index over every waiting delivery would tax every publish. The inbox must be admitted before.
 */
export async function cancel(db: Database, request: CancelRequest): Promise<Cancelled[]> {
  const { eventIds, subscription, reason } = request
  const rows = await db.once<CancelRow>(cancelStatement(db), [eventIds, subscription, reason], {})
  return rows.map(([eventId, subscription, told]) => ({ eventId, subscription, told }))
}

const cancelStatement = defineStatement(
  'cancel',
  `with hit_runs as materialized (
    select r.id, r.subscription, r.state, r.event_ids, r.ordering_key, r.position, r.concurrency_key, r.attempts,
      r.failures, coalesce(r.granted, 0) as granted
    from __schema__.runs r
    where r.event_ids && $1::bigint[] and ($2::int is null or r.subscription = $2)
    order by r.id
    for update
  ),
  hit_chunks as materialized (
    select q.subscription, q.ordering_key, q.position, q.event_ids, q.attempts
    from __schema__.lane_queue q
    where q.event_ids && $1::bigint[] and ($2::int is null or q.subscription = $2)
    order by q.subscription, q.ordering_key, q.position
    for update
  ),
  hit as materialized (
    select h.id as run_id, h.subscription, u.event_id,
      h.state = 'leased' and u.place <= h.granted as told,
      case when u.place = 1 then h.attempts else 0 end as attempts,
      case when u.place = 1 then h.failures else 0 end as failures
    from hit_runs h
    cross join lateral unnest(h.event_ids) with ordinality as u(event_id, place)
    where u.event_id = any($1)
    union all
    select null, h.subscription, u.event_id, false, h.attempts, 0
    from hit_chunks h
    cross join lateral unnest(h.event_ids) as u(event_id)
    where u.event_id = any($1)
  ),
  left_over as materialized (
    select h.*, array(
      select u.event_id
      from unnest(h.event_ids) with ordinality as u(event_id, place)
      where u.event_id <> all($1) or (h.state = 'leased' and u.place <= h.granted)
      order by u.place) as remaining
    from hit_runs h
  ),
  gone as (
    delete from __schema__.runs r using left_over l where r.id = l.id and l.remaining = '{}' and l.state <> 'blocked'
  ),
  kept as (
    update __schema__.runs r
    set event_ids = l.remaining, first_id = coalesce(l.remaining[1], r.first_id),
      attempts = case when l.remaining[1] = l.event_ids[1] then r.attempts else 0 end,
      failures = case when l.remaining[1] = l.event_ids[1] then r.failures else 0 end,
      -- a lane that waited for the retry of a cancelled head goes on
      state = (case when l.goes_on then 'ready' else l.state::text end)::__schema__.run_state,
      due_at = case when l.goes_on then null else r.due_at end,
      cancelled = case when l.state = 'leased'
        then r.cancelled || array(select h.event_id from hit h where h.run_id = l.id and h.told) end
    from (
      select o.*, o.ordering_key is not null and o.state = 'deferred' and o.remaining[1] <> o.event_ids[1] as goes_on
      from left_over o
    ) as l
    where r.id = l.id and (l.remaining <> '{}' or l.state = 'blocked')
  ),
  gone_chunks as (
    delete from __schema__.lane_queue q
    using hit_chunks h
    where q.subscription = h.subscription and q.ordering_key = h.ordering_key and q.position = h.position
      and h.event_ids <@ $1
  ),
  kept_chunks as (
    update __schema__.lane_queue q
    set event_ids = array(
      select u.event_id from unnest(h.event_ids) with ordinality as u(event_id, place)
      where u.event_id <> all($1) order by u.place)
    from hit_chunks h
    where q.subscription = h.subscription and q.ordering_key = h.ordering_key and q.position = h.position
      and not h.event_ids <@ $1
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, finished_at, reason)
    select h.event_id, h.subscription, 'cancelled', h.attempts, h.failures, __schema__.clock(), $3
    from hit h
    where not h.told
  ),
  noted as (
    insert into __schema__.inbox (subscription, ordering_keys, positions, concurrency_keys)
    select l.subscription, array_agg(l.ordering_key), array_agg(l.position), array_agg(l.concurrency_key)
    from left_over l
    where l.remaining = '{}' and num_nonnulls(l.ordering_key, l.concurrency_key) > 0
      and l.state not in ('delayed', 'blocked')
    group by l.subscription
  )
  select h.event_id, h.subscription, h.told from hit h order by h.event_id, h.subscription`,
)

type CancelRow = [eventId: number, subscription: number, told: boolean]
