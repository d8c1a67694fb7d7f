import { numberArray } from '../db/array.ts'
import { type Database, defineStatement } from '../db/database.ts'
import { type CallerTransaction, rowsOf } from '../domain/caller-transaction.ts'
import type { MemoryDeliveryName } from './claim-memory.ts'

/** Marks a suspect as begun, so that it is the one to be charged if it ends its process; false: it cannot begin. */
export async function markMemory(
  db: Database,
  { subscription, token, eventId }: MemoryDeliveryName,
): Promise<boolean> {
  const rows = await db.once(markStatement(db), [subscription, token, eventId], {})
  return rows.length > 0
}

/** Completes a delivery in the caller's transaction; false: it was completed before, or another process has the queue. */
export async function completeMemoryIn(
  tx: CallerTransaction,
  db: { readonly schema: string },
  { subscription, token, eventId }: MemoryDeliveryName,
): Promise<boolean> {
  const answer = await tx.query(completeStatement(db).text, [subscription, token, eventId])
  return rowsOf(answer).length > 0
}

export async function isCompletedInMemory(
  db: Database,
  { subscription, eventId }: MemoryDeliveryName,
): Promise<boolean> {
  const rows = await db.run(isCompletedStatement(db), [subscription, eventId])
  return rows.length > 0
}

/** Whether this transaction itself has completed it, and has not ended: it sees so, and nobody else does. */
export async function isCompletedInMemoryBy(
  tx: CallerTransaction,
  db: Database,
  delivery: MemoryDeliveryName,
): Promise<boolean> {
  const answer = await tx.query(isCompletedStatement(db).text, [delivery.subscription, delivery.eventId])
  return rowsOf(answer).length > 0 && !(await isCompletedInMemory(db, delivery))
}

/**
 * Whether a transaction that may still be open has completed the delivery: waits for its end. The row that is written to find
 * out is taken back.
 */
export async function awaitMemoryCompletion(db: Database, delivery: MemoryDeliveryName): Promise<boolean> {
  const { subscription, token, eventId } = delivery
  return db.transaction(async (tx) => {
    const written = await tx.run(completeStatement(db), [subscription, token, eventId])
    if (written.length > 0) await tx.run(undoStatement(db), [subscription, numberArray([eventId])])
    return (
      written.length === 0 && (await tx.run(isCompletedStatement(db), [subscription, eventId])).length > 0
    )
  })
}

/** The primary key decides between two processes that both believe to have the delivery. */
const completeStatement = defineStatement(
  'complete_memory',
  `insert into __schema__.memory_settled (subscription, event_id, token)
  select q.subscription, $3::bigint, q.token
  from __schema__.memory_queues q
  where q.subscription = $1 and q.token = $2
  on conflict do nothing
  returning 1 as settled`,
)

export const undoStatement = defineStatement(
  'undo_complete_memory',
  'delete from __schema__.memory_settled t where t.subscription = $1 and t.event_id = any($2::bigint[])',
)

const isCompletedStatement = defineStatement(
  'is_completed_memory',
  'select 1 from __schema__.memory_settled t where t.subscription = $1 and t.event_id = $2',
)

const markStatement = defineStatement(
  'mark_memory',
  `update __schema__.memory_events m
  set is_begun = true
  from __schema__.memory_queues q
  where q.subscription = $1 and q.token = $2 and m.subscription = $1 and m.event_id = $3
  returning 1`,
)
