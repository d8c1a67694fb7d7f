import type { Connection, Database } from '../db/database.ts'
import { foldDelivered, pruneIdleLanes } from './lane-statements.ts'
import type { PruneRequest, PruneStep } from './prune-step.ts'
import { endStep, takeWalk } from './retention-walk.ts'

export const laneWalk = 'lanes'
const lanesMax = 2_000
const nextPassMs = 24 * 60 * 60_000

/**
 * Forgets the counters of lanes that were idle for long: their numbering begins anew. The time when a lane was last used
 * has no index, since it changes with every lease, so a walk looks at all lanes once a day.
 */
export async function pruneLanes(db: Database, { keepMs, turn }: PruneRequest): Promise<PruneStep> {
  return db.transaction(
    async (tx) => {
      const walk = await takeWalk(tx, db, { name: laneWalk, turn })
      if (walk === undefined) return { removed: 0, more: false }
      const values = [walk.reached, walk.reachedKey, keepMs, lanesMax]
      const [row] = await tx.run<PrunedRow>(pruneIdleLanes(db), values)
      const [removed, seen, reached, reachedKey] = row as PrunedRow
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

type PrunedRow = [removed: number, seen: number, reached: number, reachedKey: string]

/**
 * Keeps in the counters of lanes what was delivered under numbers that are about to go: the next delivery of a lane tells
 * its receiver the number of the one before, however long ago that was.
 */
export async function foldLanes(
  tx: Connection,
  db: { readonly schema: string },
  eventIds: string,
): Promise<void> {
  await tx.run(foldDelivered(db), [eventIds])
}
