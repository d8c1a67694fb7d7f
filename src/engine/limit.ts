import type { Connection, Database } from '../db/database.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import {
  addMissingLimitsStatement,
  lockLimitsStatement,
  readRoomStatement,
  spendStatement,
} from './limit-statements.ts'

/**
 * Waits for this transaction's turn to lease from limited subscriptions. Returns how many deliveries each of them may give out. The
 * count is a statement of its own, so that it sees what the transaction before this one has leased.
 */
export async function takeTurn(
  tx: Connection,
  db: Database,
  subscriptions: readonly number[],
): Promise<Map<number, number>> {
  await tx.run(addMissingLimitsStatement(db), [subscriptions])
  await tx.run(lockLimitsStatement(db), [subscriptions])
  const rows = await tx.run<[subscription: number, room: number]>(readRoomStatement(db), [subscriptions])
  return new Map(rows)
}

/** Takes tokens for the leased deliveries out of the buckets of subscriptions with a rate. */
export async function spend(tx: Connection, db: Database, runs: readonly LeasedRun[]): Promise<void> {
  const spent = new Map<number, number>()
  for (const run of runs)
    spent.set(run.subscription, (spent.get(run.subscription) ?? 0) + run.deliveries.length)
  await tx.run(spendStatement(db), [[...spent.keys()], [...spent.values()]])
}
