import { setTimeout as delay } from 'node:timers/promises'
import { type Connection, type Database, defineStatement } from '../db/database.ts'
import { cancelTold } from './cancel.ts'

export interface Release {
  readonly runId: number
  readonly token: number
}

/** Whoever looks for something to lease may lock a run for a moment that was leased meanwhile. */
const lockedTurnsMax = 20
const lockedPauseMs = 10

/**
 * Hands whole runs back as they were: nothing in them had begun, so nothing is counted or recorded. Only what
 * an operator has cancelled meanwhile does not come back. What stays locked is being settled, and is not waited for.
 */
export async function release(db: Database, releases: readonly Release[]): Promise<void> {
  await releaseAll(db, releases, 'any')
}

/**
 * The same for leases whose answer may not have arrived. A worker that has renewed its lease, or said that it has begun, has
 * had its answer, and keeps the lease.
 */
export async function releaseUnheard(db: Database, releases: readonly Release[]): Promise<void> {
  await releaseAll(db, releases, 'unheard')
}

/** `'unheard'`: only runs whose worker has said nothing since they were leased. */
type Which = 'any' | 'unheard'

async function releaseAll(db: Database, releases: readonly Release[], which: Which): Promise<void> {
  let left = releases
  for (let turn = 0; turn < lockedTurnsMax; turn++) {
    if (turn > 0) await delay(lockedPauseMs)
    const locked = await db.transaction((tx) => releaseIn(tx, db, left, which), {
      indexPlans: true,
      hashJoins: true,
    })
    if (locked.size === 0) return
    left = left.filter(({ runId }) => locked.has(runId))
  }
}

/** Gives the runs that are still held, but locked. */
async function releaseIn(
  tx: Connection,
  db: Database,
  releases: readonly Release[],
  which: Which,
): Promise<Set<number>> {
  const values = [releases.map((one) => one.runId), releases.map((one) => one.token), which]
  const rows = await tx.run<ReleaseRow>(releaseStatement(db), values)
  await cancelTold(
    tx,
    db,
    rows.flatMap(([, subscription, told]) => (subscription === null ? [] : [[subscription, told]])),
  )
  return new Set(rows.flatMap(([runId, subscription]) => (subscription === null ? [runId] : [])))
}

const releaseStatement = defineStatement(
  'release',
  `with given as materialized (
    select r.id
    from __schema__.runs r
    join unnest($1::bigint[], $2::bigint[]) as g(run_id, token) on g.run_id = r.id and g.token = r.token
    where r.id = any($1) and r.state = 'leased' and ($3::text = 'any' or __schema__.is_unheard(r))
  ),
  held as materialized (
    select r.id
    from __schema__.runs r
    join unnest($1::bigint[], $2::bigint[]) as g(run_id, token) on g.run_id = r.id and g.token = r.token
    where r.id = any($1) and r.state = 'leased' and ($3::text = 'any' or __schema__.is_unheard(r))
    order by r.id
    for update of r skip locked
  ),
  back as (
    update __schema__.runs r
    set state = 'ready', first_id = r.event_ids[1], token = null, worker = null, leased_at = null, leased_until = null, granted = null, begun = null
    from held h
    where r.id = any($1) and r.id = h.id
    returning r.id, r.subscription, r.event_ids, r.cancelled
  )
  select g.id, b.subscription, array(select u.event_id from unnest(b.event_ids) as u(event_id) where u.event_id = any(b.cancelled))
  from given g
  left join back b on b.id = g.id
  where b.id is null or b.event_ids && b.cancelled`,
)

/** Without a subscription: locked. */
type ReleaseRow = [runId: number, subscription: number | null, told: number[]]
