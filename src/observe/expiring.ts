import type { Reader } from '../core/reader.ts'
import { expiringDeliveries } from './observe-statements.ts'

export interface Expiring {
  readonly subscription: number
  /** Deliveries that cannot all begin before they expire, at the recent rate. */
  readonly deliveries: number
}

/** Only the first to expire are read, of each queue and of each table. */
const deliveriesMax = 10_000
const rowsMax = 50_000

/**
 * How many deliveries must miss their expiry even if those that expire first always go first. Until each expiry the rate
 * and the time that is left let a number of deliveries begin; what exceeds that number is late, and the worst expiry counts.
 */
export async function countExpiring(reader: Reader): Promise<Expiring[]> {
  return (await reader.query<Expiring>(expiringDeliveries(reader).text, [deliveriesMax, rowsMax])).rows
}
