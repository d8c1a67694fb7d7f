import type { Database } from '../db/database.ts'
import { isolateStatement } from './held-lease-statements.ts'

export interface IsolateRequest {
  readonly runId: number
  readonly token: number
  readonly eventId: number
}

export interface IsolatedRun {
  readonly runId: number
  /** The id of the transaction that made the run: only a snapshot that sees this transaction sees the run. */
  readonly mark: string
}

/**
 * Moves one delivery of a leased run into a leased run of its own. A handler that settles in its own transaction then locks no row
 * that other deliveries or the heartbeat need. Returns the run to settle with, or undefined if the lease is lost.
 */
export async function isolate(db: Database, request: IsolateRequest): Promise<IsolatedRun | undefined> {
  const { runId, token, eventId } = request
  const values = [runId, token, eventId]
  const options = { durable: false, indexPlans: true }
  const [row] = await db.once<[runId: number, mark: string]>(isolateStatement(db), values, options)
  return row === undefined ? undefined : { runId: row[0], mark: row[1] }
}
