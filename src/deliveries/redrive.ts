import type { Database } from '../db/database.ts'
import { checkDeadLetterIds } from '../domain/id.ts'
import { redriveStatement } from './repair-statements.ts'

export interface RedriveRequest {
  readonly deadLetterIds: readonly string[]
  /** Who asked for it. */
  readonly by: string
}

export interface Redriven {
  readonly deadLetterId: string
  readonly eventId: number
  readonly subscription: number
}

/**
 * Gives dead letters a fresh budget of attempts. A delivery without an ordering key is ready at once; one with a key goes to the end
 * of its lane, in the order of events; one that blocks its lane goes back to the head. A letter that no subscription wanted is
 * routed again. Letters that were redriven before, or whose event is gone or purged, are left alone.
 */
export async function redrive(db: Database, request: RedriveRequest): Promise<Redriven[]> {
  checkDeadLetterIds(request.deadLetterIds)
  const rows = await db.once<RedriveRow>(redriveStatement(db), [request.deadLetterIds, request.by], {})
  return rows.map(([deadLetterId, eventId, subscription]) => ({ deadLetterId, eventId, subscription }))
}

type RedriveRow = [deadLetterId: string, eventId: number, subscription: number]
