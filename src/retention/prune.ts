import type { Database } from '../db/database.ts'
import type { RetentionConfig } from '../domain/retention-times.ts'
import { listEventTypes } from '../events/event-type.ts'
import { type Kept, whatIsKept } from './kept.ts'
import type { PruneStep } from './prune-step.ts'
import { restartWalk, type Turn } from './retention-walk.ts'

export interface RetentionParts {
  readonly db: Database
  readonly config: RetentionConfig
  readonly observe: RetentionObserver
}

export interface RetentionObserver {
  /** Rows of a table were removed. */
  pruned(table: string, rows: number): void
  /** Old rows of a table could not be removed now. */
  failed(error: unknown, table: string): void
}

/** One step for each table, for upkeep. A table that fails does not keep the others from their step. True: there is more. */
export async function pruneOneStep({ db, config, observe }: RetentionParts): Promise<boolean> {
  let more = false
  for (const kept of whatIsKept(config, await listEventTypes(db))) {
    try {
      const step = await pruneStep(kept, { db, observe, turn: 'when due' })
      more = step.more || more
    } catch (error) {
      observe.failed(error, kept.table)
    }
  }
  return more
}

/** Removes all rows whose time is over, without pauses; the rows that went, by table. What went before an error stays removed. */
export async function pruneAll({ db, config, observe }: RetentionParts): Promise<Record<string, number>> {
  const removed: Record<string, number> = {}
  for (const kept of whatIsKept(config, await listEventTypes(db))) {
    if (kept.walk !== undefined) await restartWalk(db, kept.walk)
    for (let more = true; more; ) {
      const step = await pruneStep(kept, { db, observe, turn: 'now' })
      for (const [table, rows] of rowsOf(kept, step)) removed[table] = (removed[table] ?? 0) + rows
      more = step.more
    }
  }
  return removed
}

interface StepTerms {
  readonly db: Database
  readonly observe: RetentionObserver
  readonly turn: Turn
}

async function pruneStep(kept: Kept, { db, observe, turn }: StepTerms): Promise<PruneStep> {
  const step = await kept.prune(db, { keepMs: kept.keepMs, turn })
  for (const [table, rows] of rowsOf(kept, step)) if (rows > 0) observe.pruned(table, rows)
  return step
}

function rowsOf({ table }: Kept, { removed, also }: PruneStep): [table: string, rows: number][] {
  return Object.entries({ [table]: removed, ...also })
}
