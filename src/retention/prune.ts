import type { Database } from '../db/database.ts'
import type { RetentionConfig } from '../domain/retention-times.ts'
import { listEventTypes } from '../events/event-type.ts'
import { type Kept, whatIsKept } from './kept.ts'
import { restartWalk } from './prune-statements.ts'
import type { PruneStep, Turn } from './prune-walk.ts'

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

/** One step for each table, for upkeep. If a table fails, the others have their step all the same. True: there is more. */
export async function pruneOneStep(parts: RetentionParts): Promise<boolean> {
  let more = false
  for (const kept of whatIsKept(parts.config, await listEventTypes(parts.db))) {
    try {
      const step = await pruneStep(kept, parts, 'when due')
      more = step.more || more
    } catch (error) {
      parts.observe.failed(error, kept.table)
    }
  }
  return more
}

/** Removes all rows whose time is over, without pauses, and counts them by table. After an error, what is gone is gone. */
export async function pruneAll(parts: RetentionParts): Promise<Record<string, number>> {
  const { db, config } = parts
  const removed: Record<string, number> = {}
  for (const kept of whatIsKept(config, await listEventTypes(db))) {
    if (kept.walk !== undefined) await db.run(restartWalk(db), [kept.walk])
    for (let more = true; more; ) {
      const step = await pruneStep(kept, parts, 'now')
      for (const [table, rows] of rowsOf(kept, step)) removed[table] = (removed[table] ?? 0) + rows
      more = step.more
    }
  }
  return removed
}

async function pruneStep(kept: Kept, { db, observe }: RetentionParts, turn: Turn): Promise<PruneStep> {
  const step = await kept.prune(db, { keepMs: kept.keepMs, turn })
  for (const [table, rows] of rowsOf(kept, step)) if (rows > 0) observe.pruned(table, rows)
  return step
}

function rowsOf({ table }: Kept, { removed, also }: PruneStep): [table: string, rows: number][] {
  return Object.entries({ [table]: removed, ...also })
}
