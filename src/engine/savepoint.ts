import type { CallerTransaction } from '../domain/caller-transaction.ts'
import { PosthornError } from '../errors.ts'

/** Runs the work. If a part of it is refused, undoes all of it and leaves the caller's transaction usable. */
export async function orNothing<T>(tx: CallerTransaction, work: () => Promise<T>): Promise<T> {
  await tx.query('savepoint posthorn_publish', [])
  try {
    return await work()
  } catch (error) {
    if (error instanceof PosthornError) await tx.query('rollback to savepoint posthorn_publish', [])
    throw error
  }
}
