import type { Database } from '../db/database.ts'
import { type CallerTransaction, rowsOf } from '../domain/caller-transaction.ts'
import { PosthornError } from '../errors.ts'
import { markNowStatement } from './publish-statements.ts'

/** The id of a transaction that has just committed: later snapshots see it, earlier ones do not. */
export async function markNow(db: Database): Promise<string> {
  const [row] = await db.once<[xid: string]>(markNowStatement(db), [], { durable: false })
  return (row as [string])[0]
}

/**
 * Refuses a transaction whose snapshot is older than `mark`. A REPEATABLE READ or SERIALIZABLE transaction keeps the
 * snapshot of its first statement: it would see a lease that has moved since as lost, or a lost one as held.
 */
export async function checkSnapshot(tx: CallerTransaction, mark: string): Promise<void> {
  const [row] = rowsOf(await tx.query(checkText, [mark])) as { isolation: string; is_fresh: boolean }[]
  if (row?.is_fresh !== true) throw new PosthornError('STALE_SNAPSHOT', { isolation: row?.isolation })
}

const checkText = `select current_setting('transaction_isolation') as isolation,
  pg_visible_in_snapshot($1::text::xid8, pg_current_snapshot()) as is_fresh`
