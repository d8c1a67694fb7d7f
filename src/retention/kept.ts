import type { Database } from '../db/database.ts'
import { keepIdempotencyKeysMs, keepRecordsMs, type RetentionConfig } from '../domain/retention-times.ts'
import type { EventType } from '../events/event-type.ts'
import { archiver } from './archive.ts'
import { pruneAudit } from './prune-audit.ts'
import { pruneEvents, walkOf } from './prune-events.ts'
import { laneWalk, pruneLanes } from './prune-lanes.ts'
import { pruneDeadLetters, removeOldRecords } from './prune-statements.ts'
import type { PruneRequest, PruneStep } from './prune-walk.ts'

/** A table whose rows go when their time is over, together with the rows that depend on them. */
export interface Kept {
  readonly table: string
  readonly keepMs: number
  /** Removes a bounded number of rows. */
  prune(db: Database, request: PruneRequest): Promise<PruneStep>
  /** The walk that remembers how far pruning has come; without one, each step begins with the oldest rows. */
  readonly walk?: string
}

/**
 * What is kept, and for how long. The order matters: an event may go once its dead letters are gone, and its audit
 * follows once the event is gone.
 */
export function whatIsKept(config: RetentionConfig, types: readonly EventType[]): Kept[] {
  const { keepFinishedMs, keepAuditMs, keepDeadLettersMs, archiveDirectory } = config
  const longestMs = Math.max(keepFinishedMs, keepAuditMs, keepDeadLettersMs)
  const archive = archiver(archiveDirectory)
  return [
    { table: 'dead_letters', keepMs: keepDeadLettersMs, prune: pruneOldDeadLetters },
    ...types.flatMap(eventsOfType),
    { table: 'events', keepMs: keepFinishedMs, prune: pruneEvents, walk: walkOf(null) },
    { table: 'audit', keepMs: keepAuditMs, prune: (db, { keepMs }) => pruneAudit(db, { keepMs, archive }) },
    records('admin_log', keepRecordsMs),
    records('replays', keepRecordsMs),
    records('queue_checkpoints', keepRecordsMs),
    records('queue_recoveries', keepRecordsMs),
    records('workers', longestMs),
    { table: 'lane_counters', keepMs: keepRecordsMs, prune: pruneLanes, walk: laneWalk },
    records('idempotency_keys', keepIdempotencyKeysMs),
  ]
}

const lettersMax = 500
/** One snapshot can have a megabyte. */
const snapshotBytesMax = 16 * 2 ** 20

async function pruneOldDeadLetters(db: Database, { keepMs }: PruneRequest): Promise<PruneStep> {
  return db.transaction(
    async (tx) => {
      const values = [keepMs, lettersMax, snapshotBytesMax]
      const { rows } = await tx.query<PruneStep>(pruneDeadLetters(db).text, values)
      return rows[0] as PruneStep
    },
    { indexPlans: true },
  )
}

function eventsOfType({ type, keepMs }: EventType): Kept[] {
  if (keepMs === null) return []
  const prune: Kept['prune'] = (db, request) => pruneEvents(db, { ...request, type })
  return [{ table: 'events', keepMs, prune, walk: walkOf(type) }]
}

const recordsMax = 1_000

/** A table whose rows go by one statement. */
function records(table: keyof typeof removeOldRecords, keepMs: number): Kept {
  const statement = removeOldRecords[table]
  const prune: Kept['prune'] = (db) =>
    db.transaction(async (tx) => {
      const { rowCount } = await tx.query(statement(db).text, [keepMs, recordsMax])
      return { removed: rowCount ?? 0, more: rowCount === recordsMax }
    })
  return { table, keepMs, prune }
}
