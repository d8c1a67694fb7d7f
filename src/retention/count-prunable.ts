import { numberArray } from '../db/array.ts'
import type { Database } from '../db/database.ts'
import type { RetentionConfig } from '../domain/retention-times.ts'
import { listEventTypes } from '../events/event-type.ts'
import { countRemovals } from './audit-statements.ts'
import { countFinished } from './event-statements.ts'
import { chooseOldEvents } from './prune-events.ts'
import { countOldDeadLetters } from './prune-statements.ts'

interface Count {
  readonly count: number
}

/** What pruning would remove now: dead letters, events, and the audit of events that are gone already. */
export async function countPrunable(db: Database, config: RetentionConfig) {
  let events = await countOldEvents(db, { type: null, keepMs: config.keepFinishedMs })
  for (const { type, keepMs } of await listEventTypes(db)) {
    if (keepMs !== null) events += await countOldEvents(db, { type, keepMs })
  }
  const letters = await db.query<Count>(countOldDeadLetters(db).text, [config.keepDeadLettersMs])
  const removals = await db.query<Count>(countRemovals(db).text, [config.keepAuditMs])
  const removed = { dead_letters: letters.rows[0]?.count ?? 0, events }
  return { removed, auditedEvents: removals.rows[0]?.count ?? 0 }
}

/** Reads the events in the same steps as pruning does. */
async function countOldEvents(
  db: Database,
  { type, keepMs }: { readonly type: string | null; readonly keepMs: number },
): Promise<number> {
  let count = 0
  let after = 0
  for (;;) {
    const found = await db.transaction(
      async (tx) => {
        const old = await chooseOldEvents(tx, db, { type, keepMs, after })
        const { rows } = await tx.query<Count>(countFinished(db).text, [numberArray(old.eventIds), keepMs])
        return { ...old, finished: rows[0]?.count ?? 0 }
      },
      { indexPlans: true, hashJoins: true, readOnly: true },
    )
    count += found.finished
    if (found.isOver) return count
    after = found.reached
  }
}
