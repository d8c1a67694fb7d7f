import { numberArray } from '../db/array.ts'
import type { Database } from '../db/database.ts'
import type { RetentionConfig } from '../domain/retention-times.ts'
import { listEventTypes } from '../events/event-type.ts'
import { countRemovals } from './audit-statements.ts'
import { countOldLetters } from './dead-letter-statements.ts'
import { countFinished } from './event-statements.ts'
import { chooseOldEvents } from './prune-events.ts'

export interface Prunable {
  readonly deadLetters: number
  readonly events: number
  /** Events that are gone already, whose audit would follow. */
  readonly auditedEvents: number
}

/** What pruning would remove now. */
export async function countPrunable(db: Database, config: RetentionConfig): Promise<Prunable> {
  let events = await countOldEvents(db, { type: null, keepMs: config.keepFinishedMs })
  for (const { type, keepMs } of await listEventTypes(db)) {
    if (keepMs !== null) events += await countOldEvents(db, { type, keepMs })
  }
  const [letters] = await db.run<[count: number]>(countOldLetters(db), [config.keepDeadLettersMs])
  const [removals] = await db.run<[count: number]>(countRemovals(db), [config.keepAuditMs])
  return { deadLetters: letters?.[0] ?? 0, events, auditedEvents: removals?.[0] ?? 0 }
}

/** Looks through the events in the same steps as pruning does. */
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
        const [row] = await tx.run<[count: number]>(countFinished(db), [numberArray(old.eventIds), keepMs])
        return { ...old, finished: row?.[0] ?? 0 }
      },
      { indexPlans: true, hashJoins: true, readOnly: true },
    )
    count += found.finished
    if (found.isOver) return count
    after = found.reached
  }
}
