import type { Database } from '../db/database.ts'
import type { DeliveryRequest } from './bury.ts'
import { retryWaitingStatement } from './repair-statements.ts'

/**
 * Makes a delivery due now that waits for another attempt; its failures stay counted. A delivery that is due stays as it is. False:
 * the delivery was never attempted, or a worker has it, or it has ended.
 */
export async function retryWaiting(
  db: Database,
  request: DeliveryRequest & { readonly by: string },
): Promise<boolean> {
  const { eventId, subscription, by } = request
  const rows = await db.once<[id: number]>(retryWaitingStatement(db), [eventId, subscription, by], {})
  return rows.length > 0
}
