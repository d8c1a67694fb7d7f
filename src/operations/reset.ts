import { type Database, defineStatement } from '../db/database.ts'

export interface ResetRequest {
  readonly eventId: number
  readonly reason: string
}

/** Takes the leased deliveries of an event from their holders: back to waiting, failures kept, holder fenced. */
export async function reset(
  db: Database,
  { eventId, reason }: ResetRequest,
): Promise<{ subscription: number }[]> {
  const rows = await db.once<[subscription: number]>(resetStatement(db), [eventId, reason], {
    indexPlans: true,
  })
  return rows.map(([subscription]) => ({ subscription }))
}

const resetStatement = defineStatement(
  'reset',
  `with held as materialized (
    select r.id, r.subscription, r.event_ids, r.ordering_key, r.concurrency_key, r.tags, r.expires_at, r.max_failures,
      r.attempts, r.failures, r.suspect, r.worker, r.token, r.leased_at,
      r.ordering_key is not null or cardinality(r.event_ids) = 1 as whole,
      case when $1 = r.event_ids[1] then r.attempts else 0 end
        + case when $1 = any(r.begun) then 1 else 0 end as attempt
    from __schema__.runs r
    where r.state = 'leased' and r.subscription in (select s.no from __schema__.subscriptions s)
      and $1 = any(r.event_ids[1:r.granted])
    order by r.id
    for update
  ),
  back as (
    update __schema__.runs r
    set state = 'ready', first_id = r.event_ids[1], token = null, leased_at = null, leased_until = null, granted = null, begun = null,
      attempts = case when h.event_ids[1] = $1 then h.attempt else h.attempts end
    from held h
    where r.id = h.id and h.whole
  ),
  shrunk as (
    update __schema__.runs r
    set event_ids = array_remove(r.event_ids, $1), granted = r.granted - 1, begun = array_remove(r.begun, $1)
    from held h
    where r.id = h.id and not h.whole
  ),
  single as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, concurrency_key, tags, expires_at,
      max_failures, attempts, failures, suspect)
    select h.subscription, 'ready', array[$1], $1, h.concurrency_key, h.tags, h.expires_at, h.max_failures,
      h.attempt, 0, h.suspect
    from held h
    where not h.whole
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, worker, token, leased_at,
      finished_at, reason)
    select $1, h.subscription, 'reset', h.attempt, case when h.event_ids[1] = $1 then h.failures else 0 end,
      h.worker, h.token, h.leased_at, __schema__.clock(), $2
    from held h
  )
  select h.subscription from held h`,
)
