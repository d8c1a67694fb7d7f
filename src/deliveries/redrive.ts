import { type Database, defineStatement } from '../db/database.ts'
import { checkDeadLetterIds } from '../domain/id.ts'
import { enqueueAgain, numberedKey } from './again-sql.ts'

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
 * subscription wanted is routed again. Letters already redriven, or whose event is gone or purged, are left alone.
 */
export async function redrive(db: Database, request: RedriveRequest): Promise<Redriven[]> {
  checkDeadLetterIds(request.deadLetterIds)
  const rows = await db.once<RedriveRow>(redriveStatement(db), [request.deadLetterIds, request.by], {})
  return rows.map(([deadLetterId, eventId, subscription]) => ({ deadLetterId, eventId, subscription }))
}

const redriveStatement = defineStatement(
  'redrive',
  `with letter as materialized (
    select d.id, d.event_id, d.subscription, d.attempts
    from __schema__.dead_letters d
    where d.id = any($1::uuid[]) and d.redriven_at is null and d.purged_at is null
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
  again as materialized (
    select l.id, l.event_id, s.no, l.attempts, e.max_retries,
      ${numberedKey} as ordering_key,
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
    where d.id in (select o.id from again o)
  ),
  routed as (
    update __schema__.events e
    set owed = __schema__.owed_by(e)
    where e.id in (select o.event_id from again o where o.unrouted)
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, finished_at, reason)
    select o.event_id, o.no, 'redriven', o.attempts, __schema__.clock(), 'redriven by ' || $2
    from again o
  ),
  ${enqueueAgain}
  select o.id, o.event_id, o.no from again o order by o.event_id`,
)

type RedriveRow = [deadLetterId: string, eventId: number, subscription: number]
