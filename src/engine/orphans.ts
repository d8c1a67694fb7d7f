import { type Database, defineStatement } from '../db/database.ts'
import type { ChunkKey } from './cancel.ts'

/** Where something waits for deleted subscriptions, a bounded portion of it: by row, as there may be millions. */
export async function orphanedDeliveries(
  db: Database,
): Promise<{ runIds: number[]; chunks: ChunkKey[] } | undefined> {
  const runIds = (await db.run<[id: number]>(orphanedRuns(db), [])).map(([id]) => id)
  const chunks = await db.run<ChunkKey>(orphanedChunks(db), [])
  return runIds.length + chunks.length > 0 ? { runIds, chunks } : undefined
}

/** Lanes of deleted subscriptions that an operator will never decide about; their letters are pruned like any. True: some were left. */
export async function forgetBlockedLanes(db: Database): Promise<boolean> {
  const rows = await db.once<[id: number]>(forgetBlocked(db), [lanesMax], { indexPlans: true })
  return rows.length === lanesMax
}

const lanesMax = 500

const deleted = `any(array(select s.no from __schema__.subscriptions s where s.status = 'deleted'))`

/** Runs hold up to 200 deliveries and chunks up to 50, so a portion is cancelled in about a second. */
const orphanedRuns = defineStatement(
  'orphaned_runs',
  `select r.id
  from __schema__.runs r
  where r.subscription = ${deleted} and r.state <> 'leased' and r.event_ids <> '{}'
  limit 100`,
)

const orphanedChunks = defineStatement(
  'orphaned_chunks',
  `select q.subscription, q.ordering_key, q.position
  from __schema__.lane_queue q
  where q.subscription = ${deleted}
  limit 500`,
)

const forgetBlocked = defineStatement(
  'forget_blocked_lanes',
  `delete from __schema__.runs r
  where r.id = any(array(
    select b.id
    from __schema__.runs b
    where b.subscription = ${deleted} and b.state = 'blocked' and b.event_ids = '{}'
    limit $1::int
    for update skip locked))
  returning r.id`,
)
