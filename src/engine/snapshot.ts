import { type Database, defineStatement } from '../db/database.ts'
import { type CallerTransaction, rowsOf } from '../domain/caller-transaction.ts'
import { PosthornError } from '../errors.ts'

/** The id of a transaction that has just committed: snapshots taken from now on see it, older ones do not. */
export async function markNow(db: Database): Promise<string> {
  const [row] = await db.once<[xid: string]>(markStatement(db), [], { durable: false })
  return (row as [string])[0]
}

/**
 * Refuses a transaction whose snapshot is older than `mark`. A REPEATABLE READ or SERIALIZABLE transaction keeps the
 * snapshot of its first statement: it would take a lease that has moved since for lost, or one that is lost for held.
 */
export async function checkSnapshot(tx: CallerTransaction, mark: string): Promise<void> {
  const [row] = rowsOf(await tx.query(checkText, [mark])) as { isolation: string; is_fresh: boolean }[]
  if (row?.is_fresh !== true) throw new PosthornError('STALE_SNAPSHOT', { isolation: row?.isolation })
}

const markStatement = defineStatement('mark_now', 'select pg_current_xact_id()::text')

const checkText = `select current_setting('transaction_isolation') as isolation,
  pg_visible_in_snapshot($1::text::xid8, pg_current_snapshot()) as is_fresh`
