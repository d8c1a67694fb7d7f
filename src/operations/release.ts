import { type Database, defineStatement } from '../db/database.ts'
import { cancelTold, type ToldRow } from './cancel.ts'

export interface Release {
  readonly runId: number
  readonly token: number
}

/**
 * Hands whole runs back as they were: nothing in them had begun, so nothing is counted or recorded. Only what
 * an operator has cancelled meanwhile does not come back.
 */
export async function release(db: Database, releases: readonly Release[]): Promise<void> {
  const values = [releases.map((one) => one.runId), releases.map((one) => one.token)]
  await db.transaction(
    async (tx) => cancelTold(tx, db, await tx.run<ToldRow>(releaseStatement(db), values)),
    { indexPlans: true, hashJoins: true },
  )
}

const releaseStatement = defineStatement(
  'release',
  `with held as materialized (
    select r.id
    from __schema__.runs r
    join unnest($1::bigint[], $2::bigint[]) as g(run_id, token) on g.run_id = r.id and g.token = r.token
    where r.id = any($1) and r.state = 'leased'
    order by r.id
    for update of r skip locked
  ),
  back as (
    update __schema__.runs r
    set state = 'ready', first_id = r.event_ids[1], token = null, worker = null, leased_at = null, leased_until = null, granted = null, begun = null
    from held h
    where r.id = any($1) and r.id = h.id
    returning r.subscription, r.event_ids, r.cancelled
  )
  select b.subscription, array(select u.event_id from unnest(b.event_ids) as u(event_id) where u.event_id = any(b.cancelled))
  from back b
  where b.event_ids && b.cancelled`,
)
