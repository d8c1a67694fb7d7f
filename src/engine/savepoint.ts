import type { CallerTransaction } from '../domain/caller-transaction.ts'
import { PosthornError } from '../errors.ts'

/** All of the work or, if it is refused, none of it: the caller's transaction goes on as if it had not been tried. */
export async function orNothing<T>(tx: CallerTransaction, work: () => Promise<T>): Promise<T> {
  await tx.query('savepoint posthorn_publish', [])
  try {
    return await work()
  } catch (error) {
    if (error instanceof PosthornError) await tx.query('rollback to savepoint posthorn_publish', [])
    throw error
  }
}
