import { type Database, defineStatement } from '../db/database.ts'
import { chooseOldEvents, finishedAmong } from './old-events.ts'
import { oldLetters } from './prune-dead-letters.ts'

/** How many events would go now, of a type or of all whose type does not say; looked through in the same steps. */
export async function countOldEvents(
  db: Database,
  { type, keepMs }: { readonly type: string | null; readonly keepMs: number },
): Promise<number> {
  let count = 0
  let after = 0
  for (;;) {
    const found = await db.transaction(
      async (tx) => {
        const old = await chooseOldEvents(tx, db, { type, keepMs, after })
        return { ...old, finished: await finishedAmong(tx, db, { eventIds: old.eventIds, keepMs }) }
      },
      { indexPlans: true, hashJoins: true, readOnly: true },
    )
    count += found.finished.length
    if (found.isOver) return count
    after = found.reached
  }
}

export interface PrunableRest {
  readonly deadLetters: number
  /** Events that are gone already, whose audit would follow. */
  readonly auditedEvents: number
}

export async function countPrunableRest(
  db: Database,
  { keepDeadLettersMs, keepAuditMs }: { readonly keepDeadLettersMs: number; readonly keepAuditMs: number },
): Promise<PrunableRest> {
  const [row] = await db.run<[deadLetters: number, auditedEvents: number]>(countStatement(db), [
    keepDeadLettersMs,
    keepAuditMs,
  ])
  const [deadLetters, auditedEvents] = row as [number, number]
  return { deadLetters, auditedEvents }
}

const countStatement = defineStatement(
  'count_prunable',
  `select (select count(*)::int from ${oldLetters}),
    (select coalesce(sum(cardinality(r.event_ids)), 0)::int from __schema__.removals r
     where r.finished_at <= __schema__.clock() - $2 * interval '1 ms')`,
)
