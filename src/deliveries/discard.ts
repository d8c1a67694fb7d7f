import { type Database, defineStatement } from '../db/database.ts'
import { goOn } from './lane-heads.ts'

/**
 * Throws a dead letter away for good. If its lane stopped at it, the lane goes on. False: there is no such letter, or
 * it was redriven.
 */
export async function discardLetter(db: Database, request: { id: string; by: string }): Promise<boolean> {
  const rows = await db.once<[id: string]>(discardStatement(db), [request.id, request.by], {})
  return rows.length > 0
}

/** Locks the letter and then the run, as redrive does. */
const discardStatement = defineStatement(
  'discard_letter',
  `with letter as materialized (
    select d.id, d.event_id, d.subscription
    from __schema__.dead_letters d
    where d.id = $1 and d.redriven_at is null
    for update
  ),
  blocked as materialized (
    select r.id, r.subscription, r.event_ids, r.ordering_key, r.position, r.concurrency_key
    from __schema__.runs r
    join letter l on l.event_id = r.blocked_by and l.subscription = r.subscription
    where r.state = 'blocked'
    for update of r
  ),
  ${goOn},
  discarded as (
    delete from __schema__.dead_letters d using letter l where d.id = l.id
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, finished_at, reason)
    select l.event_id, l.subscription, 'discarded', 0, __schema__.clock(), 'discarded by ' || $2
    from letter l
    where l.subscription is not null
  )
  select l.id from letter l`,
)
