import { numberArray } from '../db/array.ts'
import { type Connection, type Database, defineStatement } from '../db/database.ts'
import { foldLanes } from './fold-lanes.ts'

export interface PruneAuditRequest {
  readonly keepMs: number
  /** Given the records as JSON texts, before they are gone for good: what it throws keeps them. */
  readonly archive: ((records: readonly AuditText[]) => Promise<void>) | null
}

export interface AuditText {
  readonly id: number
  readonly text: string
}

export interface PruneAuditStep {
  /** Rows by table. */
  readonly removed: Readonly<Record<AuditTable, number>>
  readonly more: boolean
}

export const auditTables = ['audit', 'exchanges', 'lane_numbers', 'replayed', 'starts'] as const
export type AuditTable = (typeof auditTables)[number]

const removalsMax = 500
const eventsMax = 2_000
/** Nothing bounds how often one event was snoozed. What is archived may be 16 KB each, and is in memory together. */
const rowsMax = { removed: 5_000, archived: 1_000 }

/**
 * Removes what is left of events that are gone, once their audit is old enough: a bounded step. The records are deleted,
 * archived, and only then committed. A process that dies in between archives them once more.
 */
export async function pruneAudit(
  db: Database,
  { keepMs, archive }: PruneAuditRequest,
): Promise<PruneAuditStep> {
  return db.transaction(
    async (tx) => {
      const due = await tx.run<[id: number, eventIds: number[]]>(takeStatement(db), [keepMs, removalsMax])
      const taken = takeSome(due)
      if (taken.length === 0) return { removed: nothing, more: false }
      const eventIds = numberArray(taken.flatMap(([, ids]) => ids))
      await foldLanes(tx, db, eventIds)
      const removed = await removeRows(tx, db, { eventIds, archive })
      // Then the next step goes on with the same.
      const isCut = auditTables.some((table) => removed[table] === limitOf(table, archive))
      if (!isCut) await tx.run(forgetStatement(db), [numberArray(taken.map(([id]) => id))])
      return { removed, more: isCut || taken.length < due.length || due.length === removalsMax }
    },
    { indexPlans: true },
  )
}

const nothing = Object.fromEntries(auditTables.map((table) => [table, 0])) as Record<AuditTable, number>

/** One at least, and as many as fit. */
function takeSome<Row extends readonly [id: number, eventIds: number[]]>(due: readonly Row[]): Row[] {
  let events = 0
  return due.filter(([, ids], place) => {
    events += ids.length
    return place === 0 || events <= eventsMax
  })
}

async function removeRows(
  tx: Connection,
  db: { readonly schema: string },
  { eventIds, archive }: { readonly eventIds: string; readonly archive: PruneAuditRequest['archive'] },
): Promise<Record<AuditTable, number>> {
  const removed = { ...nothing }
  for (const table of auditTables) {
    const limit = limitOf(table, archive)
    if (table === 'audit' && archive !== null) {
      const rows = await tx.run<[id: number, text: string]>(removeAudit(db), [eventIds, limit])
      if (rows.length > 0) await archive(rows.map(([id, text]) => ({ id, text })))
      removed.audit = rows.length
    } else {
      const [row] = await tx.run<[count: number]>(removeStatements[table](db), [eventIds, limit])
      removed[table] = row?.[0] ?? 0
    }
    // A record is archived together with its exchange: that goes only after it.
    if (removed[table] === limit) return removed
  }
  return removed
}

function limitOf(table: AuditTable, archive: PruneAuditRequest['archive']): number {
  return table === 'audit' && archive !== null ? rowsMax.archived : rowsMax.removed
}

const takeStatement = defineStatement(
  'take_removals',
  `select r.id, r.event_ids
  from __schema__.removals r
  where r.finished_at <= __schema__.clock() - $1 * interval '1 ms'
  order by r.finished_at
  limit $2
  for update skip locked`,
)

const forgetStatement = defineStatement(
  'forget_removals',
  'delete from __schema__.removals r where r.id = any($1::bigint[])',
)

/** By their places: the records have no key that is cheaper to find them by, and nobody changes them. */
function removeFrom(table: AuditTable): string {
  return `delete from __schema__.${table} x
    where x.ctid = any(array(
      select o.ctid from __schema__.${table} o where o.event_id = any($1::bigint[]) limit $2))`
}

const removeStatements = Object.fromEntries(
  auditTables.map((table) => [
    table,
    defineStatement(
      `remove_${table}`,
      `with removed as (${removeFrom(table)} returning 1) select count(*)::int from removed`,
    ),
  ]),
) as Record<AuditTable, ReturnType<typeof defineStatement>>

const removeAudit = defineStatement(
  'remove_archived_audit',
  `with removed as (${removeFrom('audit')} returning x.*)
  select a.id, json_build_object(
    'id', a.id, 'event_id', a.event_id, 'subscription', s.name, 'subscription_id', s.id, 'settlement', a.settlement,
    'attempt', a.attempt, 'failures', a.failures, 'worker_id', w.name, 'leased_at', a.leased_at,
    'started_at', a.started_at, 'finished_at', a.finished_at, 'next_at', a.next_at, 'status_code', a.status_code,
    'execution_ms', a.execution_ms, 'reason', a.reason, 'cause', a.cause, 'exchange', case when x.event_id is not null then
      json_build_object('started_at', x.started_at, 'request', x.request, 'status_code', x.status_code,
        'response', x.response, 'error_class', x.error_class, 'error', x.error, 'timings', x.timings) end)::text
  from removed a
  left join __schema__.exchanges x
    on x.event_id = a.event_id and x.subscription = a.subscription and x.token = a.token
  left join __schema__.subscriptions s on s.no = a.subscription
  left join __schema__.workers w on w.no = a.worker
  order by a.id`,
)
