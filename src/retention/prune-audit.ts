import { numberArray } from '../db/array.ts'
import type { Connection, Database } from '../db/database.ts'
import * as statements from './audit-statements.ts'
import { foldLanes } from './prune-lanes.ts'
import type { PruneStep } from './prune-step.ts'

export interface PruneAuditRequest {
  readonly keepMs: number
  readonly archive: Archive | null
}

/** Given records that are about to go for good, as JSON texts. When it throws they stay. */
export type Archive = (db: { readonly schema: string }, records: readonly AuditText[]) => Promise<void>

export interface AuditText {
  readonly id: number
  readonly text: string
}

/** In the order in which they go: a record is archived together with its exchange, which goes only after it. */
const removeStatements = {
  audit: statements.removeFrom('audit'),
  exchanges: statements.removeFrom('exchanges'),
  lane_numbers: statements.removeFrom('lane_numbers'),
  replayed: statements.removeFrom('replayed'),
  starts: statements.removeFrom('starts'),
}
const auditTables = Object.keys(removeStatements) as (keyof typeof removeStatements)[]

const removalsMax = 500
const eventsMax = 2_000
/** Nothing bounds how often one event was snoozed. A record to archive may have 16 KB, and all are in memory together. */
const rowsMax = { removed: 5_000, archived: 1_000 }

/**
 * Removes what is left of events that are gone, once their audit is old enough: a bounded step. The records are deleted,
 * archived, and only then committed. A process that dies in between archives them once more.
 */
export async function pruneAudit(db: Database, { keepMs, archive }: PruneAuditRequest): Promise<PruneStep> {
  return db.transaction(
    async (tx) => {
      const due = await tx.run<RemovalRow>(statements.takeRemovals(db), [keepMs, removalsMax])
      const taken = takeSome(due)
      if (taken.length === 0) return toStep(noRows, { more: false })
      const eventIds = numberArray(taken.flatMap(([, ids]) => ids))
      await foldLanes(tx, db, eventIds)
      const { rows, isCut } = await removeRows(tx, db, { eventIds, archive })
      // When a limit cut the step short, the next step goes on with the same removals.
      if (!isCut) await tx.run(statements.forgetRemovals(db), [numberArray(taken.map(([id]) => id))])
      return toStep(rows, { more: isCut || taken.length < due.length || due.length === removalsMax })
    },
    { indexPlans: true },
  )
}

type RemovalRow = [id: number, eventIds: number[]]

const noRows = { audit: 0, exchanges: 0, lane_numbers: 0, replayed: 0, starts: 0 }

function toStep({ audit, ...also }: typeof noRows, { more }: { readonly more: boolean }): PruneStep {
  return { removed: audit, also, more }
}

/** One at least, and as many as fit. */
function takeSome(due: readonly RemovalRow[]): RemovalRow[] {
  let events = 0
  return due.filter(([, ids], place) => {
    events += ids.length
    return place === 0 || events <= eventsMax
  })
}

async function removeRows(
  tx: Connection,
  db: { readonly schema: string },
  { eventIds, archive }: { readonly eventIds: string; readonly archive: Archive | null },
): Promise<{ readonly rows: typeof noRows; readonly isCut: boolean }> {
  const rows = { ...noRows }
  for (const table of auditTables) {
    const isArchived = table === 'audit' && archive !== null
    const limit = isArchived ? rowsMax.archived : rowsMax.removed
    rows[table] = isArchived
      ? await archiveRecords(tx, db, { eventIds, archive, limit })
      : await countOf(tx.run<[count: number]>(removeStatements[table](db), [eventIds, limit]))
    if (rows[table] === limit) return { rows, isCut: true }
  }
  return { rows, isCut: false }
}

async function archiveRecords(
  tx: Connection,
  db: { readonly schema: string },
  {
    eventIds,
    archive,
    limit,
  }: { readonly eventIds: string; readonly archive: Archive; readonly limit: number },
): Promise<number> {
  const values = [eventIds, limit]
  const rows = await tx.run<[id: number, text: string]>(statements.removeAuditToArchive(db), values)
  const records = rows.map(([id, text]) => ({ id, text }))
  if (records.length > 0) await archive(db, records)
  return records.length
}

async function countOf(counting: Promise<[count: number][]>): Promise<number> {
  const [row] = await counting
  return row?.[0] ?? 0
}
