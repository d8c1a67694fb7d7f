import { type Database, defineStatement } from '../db/database.ts'

export interface Expired {
  readonly subscription: number
  /** The subscription's name, and the event's type. */
  readonly name: string
  readonly type: string | null
  readonly eventId: number
}

/**
 * Ends deliveries whose time is over and that nobody has leased, also in paused queues. Frees their lanes. Of a leased lane it
 * ends what its holder may not attempt.
 */
export async function expire(db: Database): Promise<Expired[]> {
  const rows = await db.once<ExpiredRow>(expireStatement(db), [rowsMax], { indexPlans: true })
  return rows.map(([subscription, name, type, eventId]) => ({ subscription, name, type, eventId }))
}

const rowsMax = 500

/** A leased lane with a rest that is over: what comes after those that its holder may attempt. */
export const isRestOver = `r.state = 'leased' and r.several and r.ordering_key is not null
      and r.expires_at is not null and r.expires_at <= __schema__.clock() and r.granted < cardinality(r.event_ids)`

/** All deliveries of a run or a chunk end at the same time: publish and admit never mix them. */
const expireStatement = defineStatement(
  'expire',
  `with ended_runs as materialized (
    select r.id, r.subscription, r.state, r.event_ids, r.ordering_key, r.position, r.concurrency_key, r.attempts, r.failures
    from __schema__.runs r
    where r.expires_at <= __schema__.clock() and r.state <> 'leased'
    order by r.expires_at
    limit $1
    for update skip locked
  ),
  ended_rests as materialized (
    select r.id, r.subscription, r.event_ids, r.granted
    from __schema__.runs r
    where ${isRestOver}
    order by r.expires_at
    limit $1
    for update skip locked
  ),
  ended_chunks as materialized (
    select q.subscription, q.ordering_key, q.position, q.event_ids, q.attempts
    from __schema__.lane_queue q
    where q.expires_at <= __schema__.clock()
    order by q.expires_at
    limit $1
    for update skip locked
  ),
  gone_runs as (
    delete from __schema__.runs r
    where r.id = any(array(select e.id from ended_runs e where e.state <> 'blocked'))
  ),
  emptied_runs as (
    update __schema__.runs r
    set event_ids = '{}', expires_at = null
    where r.id = any(array(select e.id from ended_runs e where e.state = 'blocked'))
  ),
  shortened_runs as (
    update __schema__.runs r
    set event_ids = e.event_ids[1:e.granted]
    from ended_rests e
    where r.id = any(array(select e.id from ended_rests e)) and r.id = e.id
  ),
  -- By their keys: one that was cancelled in part a moment ago has another ctid, which this snapshot does not see.
  gone_chunks as (
    delete from __schema__.lane_queue q
    using ended_chunks e
    where q.subscription = e.subscription and q.ordering_key = e.ordering_key and q.position = e.position
  ),
  ended as materialized (
    select e.subscription, u.event_id, case when u.place = 1 then e.attempts else 0 end as attempts,
      case when u.place = 1 then e.failures else 0 end as failures
    from ended_runs e cross join lateral unnest(e.event_ids) with ordinality as u(event_id, place)
    union all
    select e.subscription, u.event_id, 0, 0
    from ended_rests e cross join lateral unnest(e.event_ids[e.granted + 1:]) as u(event_id)
    union all
    select e.subscription, u.event_id, e.attempts, 0
    from ended_chunks e cross join lateral unnest(e.event_ids) as u(event_id)
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, finished_at, reason)
    select e.event_id, e.subscription, 'expired', e.attempts, e.failures, __schema__.clock(), 'expired'
    from ended e
  ),
  buried as (
    insert into __schema__.dead_letters (id, event_id, subscription, kind, reason, attempts, failures,
      event_snapshot, subscription_snapshot, buried_at)
    select __schema__.uuid_v7(), d.event_id, d.subscription, 'expired', 'expired', d.attempts, d.failures,
      __schema__.event_document(e), __schema__.subscriber_document(s), __schema__.clock()
    from ended d
    join __schema__.events e on e.id = d.event_id
    join __schema__.subscriptions s on s.no = d.subscription
  ),
  noted as (
    insert into __schema__.inbox (subscription, ordering_keys, positions, concurrency_keys)
    select e.subscription, array_agg(e.ordering_key), array_agg(e.position), array_agg(e.concurrency_key)
    from ended_runs e
    where num_nonnulls(e.ordering_key, e.concurrency_key) > 0 and e.state not in ('delayed', 'held', 'blocked')
    group by e.subscription
  )
  select d.subscription, s.name, e.type, d.event_id
  from ended d
  join __schema__.events e on e.id = d.event_id
  join __schema__.subscriptions s on s.no = d.subscription`,
)

type ExpiredRow = [subscription: number, name: string, type: string | null, eventId: number]
