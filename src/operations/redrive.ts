import { type Database, defineStatement } from '../db/database.ts'

export interface RedriveRequest {
  readonly deadLetterIds: readonly string[]
  /** Who asked for it. */
  readonly by: string
}

export interface Redriven {
  readonly deadLetterId: string
  readonly eventId: number
  readonly subscription: number
}

/**
 * Gives dead letters a fresh budget. An unkeyed one is ready at once; a keyed one goes to the end of its lane,
 * in the order of their events; one whose lane is blocked by it goes back to the head. A letter that no
 * subscription wanted is routed again. Letters already redriven, or whose event is gone, are left alone.
 */
export async function redrive(db: Database, request: RedriveRequest): Promise<Redriven[]> {
  const rows = await db.once<RedriveRow>(redriveStatement(db), [request.deadLetterIds, request.by], {})
  return rows.map(([deadLetterId, eventId, subscription]) => ({ deadLetterId, eventId, subscription }))
}

const redriveStatement = defineStatement(
  'redrive',
  `with letter as materialized (
    select d.id, d.event_id, d.subscription, d.attempts
    from __schema__.dead_letters d
    where d.id = any($1::uuid[]) and d.redriven_at is null
    order by d.event_id, d.id
    for update
  ),
  -- Locked, so that nobody unblocks the lane under us.
  blocked as materialized (
    select b.id, b.subscription, b.blocked_by
    from __schema__.runs b
    where b.state = 'blocked' and b.blocked_by in (select l.event_id from letter l)
    order by b.id
    for update
  ),
  owed as materialized (
    select l.id, l.event_id, s.no, l.attempts, e.max_retries,
      -- the lane that it was numbered in, even if the subscription has come to order by something else
      coalesce((
        select n.ordering_key from __schema__.lane_numbers n
        where n.event_id = e.id and n.subscription = s.no
        order by n.replays desc
        limit 1),
        case when s.key_path is null then e.ordering_key
          else __schema__.key_at(s.key_path, e.payload, __schema__.event_fields(e)) end) as ordering_key,
      case when s.key_concurrency is not null then e.concurrency_key end as concurrency_key,
      case when s.via = 'pull' then e.tags end as tags,
      l.subscription is null as unrouted,
      b.id as blocked_run
    from letter l
    join __schema__.events e on e.id = l.event_id
    cross join lateral unnest(
      case when l.subscription is null then __schema__.owed_by(e) else array[l.subscription] end) as o(no)
    join __schema__.subscriptions s on s.no = o.no and s.status <> 'deleted'
    left join blocked b on b.subscription = s.no and b.blocked_by = e.id
  ),
  marked as (
    update __schema__.dead_letters d
    set redriven_at = __schema__.clock(), redriven_by = $2
    where d.id in (select o.id from owed o)
  ),
  routed as (
    update __schema__.events e
    set owed = __schema__.owed_by(e)
    where e.id in (select o.event_id from owed o where o.unrouted)
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, finished_at, reason)
    select o.event_id, o.no, 'redriven', o.attempts, __schema__.clock(), 'redriven by ' || $2
    from owed o
  ),
  heads as (
    update __schema__.runs r
    set state = (case when o.concurrency_key is null then 'ready' else 'gated' end)::__schema__.run_state,
      event_ids = o.event_id || r.event_ids, first_id = o.event_id, attempts = o.attempts, failures = 0, blocked_by = null
    from owed o
    where r.id = o.blocked_run
  ),
  free as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, tags, max_failures, attempts)
    select o.no, 'ready', array[o.event_id], o.event_id, o.tags, case when o.no = 0 then o.max_retries end, o.attempts
    from owed o
    where o.ordering_key is null and o.concurrency_key is null
  ),
  -- Those of one kind that follow each other are one row, and the rows are in the order of their events: an admission
  -- that takes only some of them leaves the later ones behind.
  queued as materialized (
    select o.*,
      row_number() over (partition by o.no order by o.event_id)
        - row_number() over (partition by o.no, o.tags, o.max_retries, o.attempts order by o.event_id) as stretch
    from owed o
    where num_nonnulls(o.ordering_key, o.concurrency_key) > 0 and o.blocked_run is null
  ),
  arrivals as (
    insert into __schema__.inbox (subscription, event_ids, ordering_keys, concurrency_keys, again_as, tags, max_failures,
      attempts)
    select q.no, array_agg(q.event_id order by q.event_id), array_agg(q.ordering_key order by q.event_id),
      array_agg(q.concurrency_key order by q.event_id),
      (select nextval('__schema__.event_ids')), q.tags, case when q.no = 0 then q.max_retries end, q.attempts
    from queued q
    group by q.no, q.stretch, q.tags, q.max_retries, q.attempts
    order by min(q.event_id)
  ),
  gates as (
    insert into __schema__.inbox (subscription, concurrency_keys)
    select o.no, array_agg(o.concurrency_key)
    from owed o
    where o.concurrency_key is not null and o.blocked_run is not null
    group by o.no
  )
  select o.id, o.event_id, o.no from owed o order by o.event_id`,
)

type RedriveRow = [deadLetterId: string, eventId: number, subscription: number]
