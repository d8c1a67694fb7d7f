import type { Database } from '../db/database.ts'
import { pruneOldLetters } from './dead-letter-statements.ts'
import type { PruneRequest, PruneStep } from './prune-step.ts'

const lettersMax = 500
/** A snapshot may have a megabyte. */
const snapshotBytesMax = 16 * 2 ** 20

/** Removes a bounded number of dead letters whose time is over. */
export async function pruneDeadLetters(db: Database, { keepMs }: PruneRequest): Promise<PruneStep> {
  const values = [keepMs, lettersMax, snapshotBytesMax]
  const [row] = await db.once<PrunedRow>(pruneOldLetters(db), values, { indexPlans: true })
  const [removed, more] = row as PrunedRow
  return { removed, more }
}

type PrunedRow = [removed: number, more: boolean]
