import { checkPaging, type Paging, pagingOptions, uuidForm } from '../core/paging.ts'
import { readAtOnce } from '../core/reader.ts'
import type { Database } from '../db/database.ts'
import { checkOptions } from '../domain/known-names.ts'
import * as statements from './record-statements.ts'

/** Unfinished deliveries of a queue that a process found when it started. */
export interface Recovery {
  readonly id: string
  readonly queue: string
  /** The process. */
  readonly worker: string
  readonly checkpointId: number | null
  readonly eventsRecovered: number
  readonly startedAt: Date
  readonly completedAt: Date | null
  readonly status: 'running' | 'completed' | 'failed'
}

export interface RecoveryPage {
  readonly recoveries: readonly Recovery[]
  readonly nextCursor: string | null
}

const depthMax = 10_000

/** Records a recovery for each of these queues that has unfinished deliveries which no live worker has leased. */
export async function recordRecoveries(
  db: Database,
  { queues, worker }: { readonly queues: readonly number[]; readonly worker: string },
): Promise<Pick<Recovery, 'queue' | 'checkpointId' | 'eventsRecovered'>[]> {
  return db.transaction(
    async (tx) => {
      const { text } = statements.recordRecoveries(db)
      return (await tx.query<Recovery>(text, [queues, worker, depthMax])).rows
    },
    { indexPlans: true },
  )
}

/** The oldest first by default. */
export async function listRecoveries(
  db: Database,
  queue: string,
  paging: Paging = {},
): Promise<RecoveryPage> {
  checkOptions(paging, pagingOptions, 'a list of recoveries')
  const { limit, offset, after, order, cursorAt } = checkPaging('recoveries', { ...paging, queue }, uuidForm)
  return readAtOnce(db, async (reader) => {
    const list = order === 'asc' ? statements.listRecoveries : statements.listRecoveriesDescending
    const { rows } = await reader.query<Recovery>(list(db).text, [queue, after, limit + 1, offset])
    const recoveries = rows.slice(0, limit)
    const last = recoveries.at(-1)
    const nextCursor = rows.length > limit && last !== undefined ? cursorAt(last.id) : null
    return { recoveries, nextCursor }
  })
}
