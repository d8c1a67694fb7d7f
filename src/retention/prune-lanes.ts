import type { Database } from '../db/database.ts'
import { pruneIdleLanes } from './prune-statements.ts'
import { endStep, type PruneRequest, type PruneStep, takeWalk } from './prune-walk.ts'

export const laneWalk = 'lanes'
const lanesMax = 2_000
const nextPassMs = 24 * 60 * 60_000

interface PrunedLanes {
  readonly removed: number
  readonly seen: number
  readonly reached: number
  readonly reachedKey: string
}

/**
 * Removes the counters of lanes that were idle for long: their numbering begins anew. The time when a lane was last used
 * has no index, since every lease changes it, so a walk reads all lanes once a day.
 */
export async function pruneLanes(db: Database, { keepMs, turn }: PruneRequest): Promise<PruneStep> {
  return db.transaction(
    async (tx) => {
      const walk = await takeWalk(tx, db, { name: laneWalk, turn })
      if (walk === undefined) return { removed: 0, more: false }
      const values = [walk.reached, walk.reachedKey, keepMs, lanesMax]
      const { rows } = await tx.query<PrunedLanes>(pruneIdleLanes(db).text, values)
      const { removed, seen, reached, reachedKey } = rows[0] as PrunedLanes
      const isOver = seen < lanesMax
      await endStep(tx, db, {
        name: walk.name,
        reached: isOver ? 0 : reached,
        reachedKey,
        kept: null,
        nextPassMs: isOver ? nextPassMs : null,
      })
      return { removed, more: !isOver }
    },
    { indexPlans: true },
  )
}
