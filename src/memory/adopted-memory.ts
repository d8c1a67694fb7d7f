import { type Database, defineStatement } from '../db/database.ts'
import type { MemoryToken } from './claim-memory.ts'

export interface AdoptedRun {
  readonly runId: number
  readonly leasedUntil: Date
}

/**
 * What has become of events that were under way: the runs that are leased by the token, by event, and those that a handler's
 * transaction has completed, which were not moved. Asked for after the move, because the answer to a move may be lost.
 */
export async function findAdopted(
  db: Database,
  { subscription, token }: MemoryToken,
  leaseToken: number,
): Promise<{ runs: Map<number, AdoptedRun>; completed: Set<number> }> {
  const values = [subscription, leaseToken, token]
  const rows = await db.run<[eventId: number, runId: number | null, until: Date]>(
    adoptedStatement(db),
    values,
  )
  const runs = new Map<number, AdoptedRun>()
  const completed = new Set<number>()
  for (const [eventId, runId, leasedUntil] of rows) {
    if (runId === null) completed.add(eventId)
    else runs.set(eventId, { runId, leasedUntil })
  }
  return { runs, completed }
}

/** A lease that has ended meanwhile can still be settled, until another process has the run. */
const adoptedStatement = defineStatement(
  'find_adopted_memory',
  `select coalesce(r.begun[1], r.event_ids[1]), r.id, coalesce(r.leased_until, __schema__.clock())
  from __schema__.runs r
  where r.subscription = $1 and r.token = $2
  union all
  select t.event_id, null, null
  from __schema__.memory_settled t
  where t.subscription = $1 and t.token = $3`,
)
