import type { Database } from '../db/database.ts'
import { type CallerTransaction, rowsOf } from '../domain/caller-transaction.ts'
import { type SettleRequest, settle } from './settle.ts'
import {
  findIsolatedStatement,
  findReclaimedStatement,
  findSettledStatement,
  isCompletedStatement,
} from './settle-statements.ts'

export type LateAnswer =
  /** The settlement counts: no other worker had leased the delivery, or the same settlement was recorded before. */
  | 'settled'
  /** The same attempt was settled before, with another outcome. */
  | 'settled otherwise'
  | 'lost'

export interface LateSettle {
  readonly subscription: number
  readonly request: SettleRequest
}

/**
 * Settles a delivery that `settle` did not find under its lease. After a reclaim it may be in another run that still has the
 * token: then the settlement counts. A repeat of the same settlement gets the first answer.
 */
export async function settleLate(db: Database, { subscription, request }: LateSettle): Promise<LateAnswer> {
  const { eventId, token, settlement } = request
  const [earlier] = await db.run<[settlement: string]>(findSettledStatement(db), [
    eventId,
    subscription,
    token,
  ])
  if (earlier !== undefined) return earlier[0] === settlement ? 'settled' : 'settled otherwise'

  const [moved] = await db.run<[runId: number]>(findReclaimedStatement(db), [subscription, eventId, token])
  if (moved === undefined) return 'lost'
  const rejected = await settle(db, [{ ...request, runId: moved[0] }])
  return rejected.length === 0 ? 'settled' : 'lost'
}

/**
 * For a runner that has moved a delivery into a run of its own (`isolate`) and has not received the answer: settles it there.
 * Otherwise the attempt would not count, because this process does not know of that run.
 */
export async function settleIsolated(
  db: Database,
  { subscription, request }: LateSettle,
): Promise<'settled' | 'lost'> {
  const { eventId, token } = request
  const [isolated] = await db.run<[runId: number]>(findIsolatedStatement(db), [subscription, eventId, token])
  if (isolated === undefined) return 'lost'
  const rejected = await settle(db, [{ ...request, runId: isolated[0] }])
  return rejected.length === 0 ? 'settled' : 'lost'
}

export interface CompletedQuestion {
  readonly eventId: number
  readonly subscription: number
  readonly token: number
}

/** Whether a delivery was completed under this token, by the audit: also if another worker has leased it since. */
export async function isCompleted(db: Database, question: CompletedQuestion): Promise<boolean> {
  const { eventId, subscription, token } = question
  const rows = await db.run<[completed: number]>(isCompletedStatement(db), [eventId, subscription, token])
  return rows.length > 0
}

/** Whether this open transaction has completed the delivery: the transaction sees the record, and no other does. */
export async function isCompletedBy(
  tx: CallerTransaction,
  db: Database,
  question: CompletedQuestion,
): Promise<boolean> {
  const { eventId, subscription, token } = question
  const answer = await tx.query(isCompletedStatement(db).text, [eventId, subscription, token])
  return rowsOf(answer).length > 0 && !(await isCompleted(db, question))
}
