import type { Database } from '../db/database.ts'
import { isLocked } from '../db/failure.ts'
import { checkEventId } from '../domain/id.ts'
import { cancelRequested } from '../engine/cancel.ts'
import { PosthornError } from '../errors.ts'
import { resetStatement } from './repair-statements.ts'

export interface ResetRequest {
  readonly eventId: number
  readonly reason: string
}

/** Renewals and leases lock a run for a moment; a handler that settles in its own transaction, for as long as it takes. */
const lockTimeoutMs = 1_000

/**
 * Takes the deliveries of an event whose attempts have begun away from their workers: they wait again, failures stay counted,
 * and the old worker can no longer settle them. Deliveries that a worker has leased and not begun stay where they are.
 * Deliveries that an operator has cancelled meanwhile end here, also behind the head of the lane.
 */
export async function reset(
  db: Database,
  { eventId, reason }: ResetRequest,
): Promise<{ subscription: number }[]> {
  checkEventId(eventId)
  try {
    return await db.transaction(
      async (tx) => {
        const rows = await tx.run<ResetRow>(resetStatement(db), [eventId, reason])
        const requested = rows.map(([subscription, eventIds]) => ({ subscription, eventIds }))
        await cancelRequested(tx, db, requested)
        return rows.map(([subscription]) => ({ subscription }))
      },
      { indexPlans: true, lockTimeoutMs },
    )
  } catch (error) {
    if (!isLocked(error)) throw error
    throw new PosthornError('LEASE_BUSY', { eventId }, { cause: error })
  }
}

type ResetRow = [subscription: number, cancelled: number[]]
