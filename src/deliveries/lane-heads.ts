import type { Database } from '../db/database.ts'
import { findBlockingLetterStatement, unblockLaneStatement } from './repair-statements.ts'

export interface LaneRequest {
  readonly subscription: number
  readonly orderingKey: string
}

/**
 * Lets a blocked lane continue without its buried head. `skip` leaves the head among the dead letters, `discard` deletes its dead
 * letter. Returns the head's event id, or undefined if the lane is not blocked.
 */
export async function unblockLane(
  db: Database,
  request: LaneRequest & { readonly verb: 'skip' | 'discard'; readonly by?: string },
): Promise<number | undefined> {
  const { subscription, orderingKey, verb, by } = request
  const reason = by === undefined ? 'discarded' : `discarded by ${by}`
  const values = [subscription, orderingKey, verb === 'discard', reason]
  const rows = await db.once<[eventId: number]>(unblockLaneStatement(db), values, {})
  return rows[0]?.[0]
}

/** The dead letter of a blocked lane's head: redriving it retries the head. */
export async function blockingLetter(db: Database, request: LaneRequest): Promise<string | undefined> {
  const rows = await db.run<[id: string]>(findBlockingLetterStatement(db), [
    request.subscription,
    request.orderingKey,
  ])
  return rows[0]?.[0]
}
