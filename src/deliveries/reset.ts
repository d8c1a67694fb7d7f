import { type Database, defineStatement } from '../db/database.ts'
import { isLocked } from '../db/failure.ts'
import { checkEventId } from '../domain/id.ts'
import { cancelTold, type ToldRow } from '../engine/cancel.ts'
import { PosthornError } from '../errors.ts'

export interface ResetRequest {
  readonly eventId: number
  readonly reason: string
}

/** Renewals and leases lock a run for a moment; whoever settles it in his own transaction, for as long as he likes. */
const lockTimeoutMs = 1_000

/**
 * Takes the deliveries of an event that are under way from their holders: back to waiting, failures kept, holder
 * fenced. What a holder owns and has not begun is waiting already, and stays where it is. What an operator has
 * cancelled meanwhile ends here, also behind the head of the lane.
 */
export async function reset(
  db: Database,
  { eventId, reason }: ResetRequest,
): Promise<{ subscription: number }[]> {
  checkEventId(eventId)
  try {
    return await db.transaction(
      async (tx) => {
        const rows = await tx.run<ToldRow>(resetStatement(db), [eventId, reason])
        await cancelTold(tx, db, rows)
        return rows.map(([subscription]) => ({ subscription }))
      },
      { indexPlans: true, lockTimeoutMs },
    )
  } catch (error) {
    if (!isLocked(error)) throw error
    throw new PosthornError('LEASE_BUSY', { eventId }, { cause: error })
  }
}

const resetStatement = defineStatement(
  'reset',
  `with held as materialized (
    select r.id, r.subscription, r.event_ids, r.ordering_key, r.concurrency_key, r.tags, r.expires_at, r.max_failures,
      r.attempts, r.failures, r.suspect, r.worker, r.token, r.leased_at,
      r.cancelled, r.ordering_key is not null or cardinality(r.event_ids) = 1 as whole,
      case when $1 = r.event_ids[1] then r.attempts else 0 end + 1 as attempt
    from __schema__.runs r
    where r.state = 'leased' and r.subscription in (select s.no from __schema__.subscriptions s)
      and $1 = any(r.event_ids[1:r.granted]) and $1 = any(r.begun)
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
  select h.subscription, array(
    select u.event_id from unnest(case when h.whole then h.event_ids else array[$1] end) as u(event_id)
    where u.event_id = any(h.cancelled))
  from held h`,
)
