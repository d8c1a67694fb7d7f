import { type Reader, readAtOnce } from '../core/reader.ts'
import { numberArray } from '../db/array.ts'
import type { Database } from '../db/database.ts'
import { allOthers, type QueueStats, type Stats, toldApartMax } from '../domain/hub-stats.ts'
import { tableSizes } from '../retention/storage-statements.ts'
import { countWorkers } from '../workers/workers.ts'
import * as statements from './observe-statements.ts'
import { countOverdue } from './overdue.ts'

/** A delayed event has a low id but has waited only since its time came, so the age of several first runs is compared. */
const oldestMax = 10

/**
 * How much waits, and for how long. Ready runs are counted in an index, and only runs of several deliveries are read: a
 * million waiting deliveries take a tenth of a second, as long as vacuum keeps up.
 */
export async function readStats(
  db: Database,
  { overdueAfterMs }: { readonly overdueAfterMs: number },
): Promise<Stats> {
  return readAtOnce(db, async (reader) => {
    const workers = await countWorkers(reader)
    const attemptsOverdue = await countOverdue(reader, { afterMs: overdueAfterMs })
    const behind = (await reader.query<Behind>(statements.statsBehind(db).text)).rows
    const rest = (await reader.query<Rest>(statements.statsRest(db).text)).rows[0] as Rest
    const { rows: tables } = await reader.query<Stats['tables'][number]>(tableSizes(db).text)
    await reader.query(indexPlans)
    const expiring = await countExpiring(reader)
    const { rows: queues } = await reader.query<QueueStats>(statements.statsQueues(db).text, [
      toldApartMax,
      allOthers,
      oldestMax,
      numberArray(behind.map(({ subscription }) => subscription)),
      numberArray(behind.map(({ deliveries }) => deliveries)),
      numberArray(behind.map(({ oldestId }) => oldestId)),
      numberArray(expiring.map(({ subscription }) => subscription)),
      numberArray(expiring.map(({ deliveries }) => deliveries)),
    ])
    return { queues, tables, ...rest, workers, attemptsOverdue }
  })
}

/**
 * The number of runs changes tenfold between two ANALYZE, and a plan made for the old number takes ten times as long: it
 * reads all runs to find a few, or sorts a million to count them.
 */
const indexPlans = 'set local enable_seqscan = off; set local enable_sort = off'

type Rest = Pick<Stats, 'deadLetters' | 'oldestTransactionSeconds'>

interface Behind {
  readonly subscription: number
  readonly deliveries: number
  readonly oldestId: number
}

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
  return (await reader.query<Expiring>(statements.expiringDeliveries(reader).text, [deliveriesMax, rowsMax]))
    .rows
}
