import type { Database } from '../db/database.ts'
import { discardStatement } from './repair-statements.ts'

/**
 * Deletes a dead letter. If its lane stopped at it, the lane continues. False: there is no such letter, or it was redriven.
 */
export async function discardLetter(db: Database, request: { id: string; by: string }): Promise<boolean> {
  const rows = await db.once<[id: string]>(discardStatement(db), [request.id, request.by], {})
  return rows.length > 0
}
