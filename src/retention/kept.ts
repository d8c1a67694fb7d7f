import type { Database, defineStatement } from '../db/database.ts'
import { keepIdempotencyKeysMs, keepRecordsMs, type RetentionConfig } from '../domain/retention-times.ts'
import type { EventType } from '../events/event-type.ts'
import { archiver } from './archive.ts'
import { pruneAudit } from './prune-audit.ts'
import { pruneDeadLetters } from './prune-dead-letters.ts'
import { pruneEvents, pruneEventsOfType, walkOf } from './prune-events.ts'
import { laneWalk, pruneLanes } from './prune-lanes.ts'
import type { PruneRequest, PruneStep } from './prune-step.ts'
import * as records from './record-statements.ts'

/** One table whose rows go when their time is over, with what depends on them. */
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
    { table: 'dead_letters', keepMs: keepDeadLettersMs, prune: pruneDeadLetters },
    ...types.flatMap(eventsOfType),
    { table: 'events', keepMs: keepFinishedMs, prune: pruneEvents, walk: walkOf(null) },
    { table: 'audit', keepMs: keepAuditMs, prune: (db, { keepMs }) => pruneAudit(db, { keepMs, archive }) },
    { table: 'admin_log', keepMs: keepRecordsMs, prune: inBatches(records.pruneAdminLog) },
    { table: 'replays', keepMs: keepRecordsMs, prune: inBatches(records.pruneReplays) },
    { table: 'queue_checkpoints', keepMs: keepRecordsMs, prune: inBatches(records.pruneCheckpoints) },
    { table: 'queue_recoveries', keepMs: keepRecordsMs, prune: inBatches(records.pruneRecoveries) },
    { table: 'workers', keepMs: longestMs, prune: inBatches(records.pruneWorkers) },
    { table: 'lane_counters', keepMs: keepRecordsMs, prune: pruneLanes, walk: laneWalk },
    {
      table: 'idempotency_keys',
      keepMs: keepIdempotencyKeysMs,
      prune: inBatches(records.pruneIdempotencyKeys),
    },
  ]
}

function eventsOfType({ type, keepMs }: EventType): Kept[] {
  if (keepMs === null) return []
  const prune: Kept['prune'] = (db, { turn }) => pruneEventsOfType(db, { type, turn })
  return [{ table: 'events', keepMs, prune, walk: walkOf(type) }]
}

const rowsMax = 1_000

/** For the tables whose rows go by one statement. */
function inBatches(statement: ReturnType<typeof defineStatement>): Kept['prune'] {
  return async (db, { keepMs }) => {
    const [row] = await db.run<[removed: number]>(statement(db), [keepMs, rowsMax])
    const removed = row?.[0] ?? 0
    return { removed, more: removed === rowsMax }
  }
}
