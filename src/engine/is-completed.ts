import { type Database, defineStatement } from '../db/database.ts'
import { type CallerTransaction, rowsOf } from '../domain/caller-transaction.ts'

export interface CompletedQuestion {
  readonly eventId: number
  readonly subscription: number
  readonly token: number
}

/** Whether a delivery was completed under this token: the audit tells, also when another has leased it since. */
export async function isCompleted(db: Database, question: CompletedQuestion): Promise<boolean> {
  const { eventId, subscription, token } = question
  const rows = await db.run<[completed: number]>(isCompletedStatement(db), [eventId, subscription, token])
  return rows.length > 0
}

/** Whether this transaction itself has completed it, and has not ended: it sees so, and nobody else does. */
export async function isCompletedBy(
  tx: CallerTransaction,
  db: Database,
  question: CompletedQuestion,
): Promise<boolean> {
  const { eventId, subscription, token } = question
  const answer = await tx.query(isCompletedStatement(db).text, [eventId, subscription, token])
  return rowsOf(answer).length > 0 && !(await isCompleted(db, question))
}

const isCompletedStatement = defineStatement(
  'is_completed',
  `select 1 from __schema__.audit a
  where a.event_id = $1 and a.subscription = $2 and a.token = $3 and a.settlement = 'completed'`,
)
