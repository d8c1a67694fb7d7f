import type { Database } from '../db/database.ts'
import { keepRecordsMs, type RetentionConfig } from '../domain/retention.ts'
import type { EventType } from '../operations/event-type.ts'

import { pruneAdminLog } from '../operations/prune-admin-log.ts'
import { pruneAudit } from '../operations/prune-audit.ts'
import { pruneCheckpoints } from '../operations/prune-checkpoints.ts'
import { pruneDeadLetters } from '../operations/prune-dead-letters.ts'
import { type PruneStep, pruneEvents, walkOf } from '../operations/prune-events.ts'
import { pruneIdempotencyKeys } from '../operations/prune-idempotency-keys.ts'
import { pruneLanes } from '../operations/prune-lanes.ts'
import { pruneRecoveries } from '../operations/prune-recoveries.ts'
import { pruneReplays } from '../operations/prune-replays.ts'
import { pruneWorkers } from '../operations/prune-workers.ts'
import type { Turn } from '../operations/retention-walk.ts'
import { archive } from './archive.ts'

/** One thing that pruning does, in bounded steps. */
export interface Verb {
  readonly doing: string
  /** What keeps its progress, if it is a walk. */
  readonly walk?: string
  step(turn: Turn): Promise<VerbStep>
}

export interface VerbStep {
  /** Rows by table. */
  readonly removed: Readonly<Record<string, number>>
  readonly more: boolean
}

/** In the order in which one makes way for the next: without its dead letter an event may go, and then its audit. */
export function pruneVerbs(db: Database, terms: RetentionConfig, types: readonly EventType[]): Verb[] {
  const { keepFinishedMs, keepAuditMs, keepDeadLettersMs } = terms
  const longestMs = Math.max(keepFinishedMs, keepAuditMs, keepDeadLettersMs)
  return [
    one('dead_letters', 'removing old dead letters', () => pruneDeadLetters(db, keepDeadLettersMs)),
    ...types.flatMap(({ type, keepMs }) => (keepMs === null ? [] : [finished(db, { type })])),
    finished(db, { type: null, keepMs: keepFinishedMs }),
    {
      doing: 'removing old audit records',
      step: () => pruneAudit(db, { keepMs: keepAuditMs, archive: archiveInto(db, terms.archiveDirectory) }),
    },
    one('admin_log', 'removing old entries of the admin log', () => pruneAdminLog(db, keepRecordsMs)),
    one('replays', 'removing old replays', () => pruneReplays(db, keepRecordsMs)),
    one('queue_checkpoints', 'removing old checkpoints', () => pruneCheckpoints(db, keepRecordsMs)),
    one('queue_recoveries', 'removing old recoveries', () => pruneRecoveries(db, keepRecordsMs)),
    one('workers', 'forgetting old workers', () => pruneWorkers(db, longestMs)),
    {
      ...one('lane_counters', 'forgetting idle lanes', (turn) =>
        pruneLanes(db, { keepMs: keepRecordsMs, turn }),
      ),
      walk: 'lanes',
    },
    one('idempotency_keys', 'forgetting old idempotency keys', () => pruneIdempotencyKeys(db)),
  ]
}

function finished(db: Database, events: Parameters<typeof pruneEvents>[1]['events']): Verb {
  const step = (turn: Turn) => pruneEvents(db, { events, turn })
  return { ...one('events', 'removing finished events', step), walk: walkOf(events.type) }
}

function one(table: string, doing: string, step: (turn: Turn) => Promise<PruneStep>): Verb {
  return {
    doing,
    step: async (turn) => {
      const { removed, more } = await step(turn)
      return { removed: { [table]: removed }, more }
    },
  }
}

function archiveInto(db: Database, directory: string | undefined) {
  if (directory === undefined) return null
  const prefix = `${db.schema.replaceAll('"', '')}-audit`
  return async (records: Parameters<typeof archive>[0]['records']) => {
    await archive({ directory, prefix, records })
  }
}
