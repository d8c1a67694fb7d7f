import { countThatFit } from '../core/portions.ts'
import { numberArray } from '../db/array.ts'
import type { Connection, Database } from '../db/database.ts'
import * as statements from './audit-statements.ts'
import type { PruneStep } from './prune-walk.ts'

export interface PruneAuditRequest {
  readonly keepMs: number
  readonly archive: Archive | null
}

/** Takes records that are about to go for good, as JSON texts. When it throws, the records stay. */
export type Archive = (db: { readonly schema: string }, records: readonly AuditText[]) => Promise<void>

export interface AuditText {
  readonly id: number
  readonly text: string
}

/** Events that were removed together. */
interface Removal {
  readonly id: number
  readonly eventIds: readonly number[]
}

type AuditTable = keyof typeof statements.removeOfEvents
type RemovedRows = Record<AuditTable, number>
const auditTables = Object.keys(statements.removeOfEvents) as AuditTable[]
const noRows: RemovedRows = { audit: 0, exchanges: 0, lane_numbers: 0, replayed: 0, starts: 0 }

const removalsMax = 500
const portion = { itemsMax: removalsMax, sizeMax: 2_000, sizeOf: ({ eventIds }: Removal) => eventIds.length }
/** One event can be snoozed any number of times. A record to archive may have 16 KB, and all are in memory together. */
const rowsMax = { removed: 5_000, archived: 1_000 }

/**
 * Removes what is left of removed events, once their audit is old enough: a bounded step. The records are deleted,
 * archived, and only then is the deletion committed. If the process dies in between, they are archived once more.
 */
export async function pruneAudit(db: Database, { keepMs, archive }: PruneAuditRequest): Promise<PruneStep> {
  return db.transaction(
    async (tx) => {
      const { rows: due } = await tx.query<Removal>(statements.takeRemovals(db).text, [keepMs, removalsMax])
      const taken = due.slice(0, countThatFit(due, portion))
      if (taken.length === 0) return toStep(noRows, { more: false })
      const eventIds = numberArray(taken.flatMap((removal) => removal.eventIds))
      await tx.run(statements.foldLanes(db), [eventIds])
      const { removed, isCut } = await removeRows(tx, db, { eventIds, archive })
      // When a limit cut the step short, the next step continues with the same removals.
      if (!isCut) await tx.run(statements.forgetRemovals(db), [numberArray(taken.map(({ id }) => id))])
      return toStep(removed, { more: isCut || taken.length < due.length || due.length === removalsMax })
    },
    { indexPlans: true },
  )
}

function toStep({ audit, ...also }: RemovedRows, { more }: { readonly more: boolean }): PruneStep {
  return { removed: audit, also, more }
}

async function removeRows(
  tx: Connection,
  db: { readonly schema: string },
  { eventIds, archive }: { readonly eventIds: string; readonly archive: Archive | null },
): Promise<{ readonly removed: RemovedRows; readonly isCut: boolean }> {
  const removed = { ...noRows }
  for (const table of auditTables) {
    const isArchived = table === 'audit' && archive !== null
    const limit = isArchived ? rowsMax.archived : rowsMax.removed
    const statement = isArchived ? statements.removeAuditToArchive : statements.removeOfEvents[table]
    const { rows, rowCount } = await tx.query<AuditText>(statement(db).text, [eventIds, limit])
    if (isArchived && rows.length > 0) await archive(db, rows)
    removed[table] = rowCount ?? 0
    if (removed[table] === limit) return { removed, isCut: true }
  }
  return { removed, isCut: false }
}
