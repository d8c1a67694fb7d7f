import { type Database, defineStatement } from '../db/database.ts'
import type { DeliveryRequest } from './bury.ts'

/**
 * Makes a delivery that waits for another attempt due now; its failures stay counted. One that is due already is left
 * as it is. False: it was never tried, or a worker has it, or it has ended.
 */
export async function retryWaiting(
  db: Database,
  request: DeliveryRequest & { readonly by: string },
): Promise<boolean> {
  const { eventId, subscription, by } = request
  const rows = await db.once<[id: number]>(retryStatement(db), [eventId, subscription, by], {})
  return rows.length > 0
}

/** Only a run's head can have been tried. The record says that nobody waits for the time of the one before it. */
const retryStatement = defineStatement(
  'retry_waiting',
  `with tried as materialized (
    select r.id, r.state, r.subscription, r.concurrency_key, r.attempts, r.failures
    from __schema__.runs r
    where r.id = any(array(
        select a.id from __schema__.runs a
        where a.state in ('deferred', 'delayed', 'held', 'gated', 'blocked') and a.first_id = $1
        union all
        select b.id from __schema__.runs b where b.subscription = $2 and b.state = 'ready' and b.first_id = $1))
      and r.subscription = $2 and r.event_ids[1] = $1 and r.attempts > 0 and r.state in ('deferred', 'ready', 'gated')
    for update
  ),
  due as (
    update __schema__.runs r
    set state = (case when t.concurrency_key is null then 'ready' else 'gated' end)::__schema__.run_state, due_at = null
    from tried t
    where r.id = t.id and t.state = 'deferred'
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, finished_at, reason)
    select $1, t.subscription, 'redriven', t.attempts, t.failures, __schema__.clock(), 'retried now by ' || $3
    from tried t
    where t.state = 'deferred'
  ),
  gates as (
    insert into __schema__.inbox (subscription, concurrency_keys)
    select t.subscription, array[t.concurrency_key]
    from tried t
    where t.state = 'deferred' and t.concurrency_key is not null
  )
  select t.id from tried t`,
)
