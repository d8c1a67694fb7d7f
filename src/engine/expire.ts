import type { Database } from '../db/database.ts'
import { expireStatement } from './reclaim-statements.ts'

export interface Expired {
  readonly subscription: number
  /** The subscription's name, and the event's type. */
  readonly name: string
  readonly type: string | null
  readonly eventId: number
}

/**
 * Ends deliveries that have expired and that no worker may attempt, also in paused queues and behind the head of a leased lane.
 * Frees their lanes.
 */
export async function expire(db: Database): Promise<Expired[]> {
  const rows = await db.once<ExpiredRow>(expireStatement(db), [rowsMax], { indexPlans: true })
  return rows.map(([subscription, name, type, eventId]) => ({ subscription, name, type, eventId }))
}

const rowsMax = 500

type ExpiredRow = [subscription: number, name: string, type: string | null, eventId: number]
