import type { Database } from '../db/database.ts'
import { PosthornError } from '../errors.ts'
import { chooseLetters, type DeadLetter, type DeadLetterFilter, getDeadLetter } from './dead-letters.ts'
import { discardLetter, type Redriven, redrive } from './repair.ts'

export interface RedrivenSome {
  readonly redriven: readonly Redriven[]
  /** More dead letters match. */
  readonly more: boolean
}

/** Gives one dead letter a fresh budget of attempts. Throws NOT_FOUND, ALREADY_RETRIED or NOT_RETRYABLE. */
export async function redriveOne(db: Database, id: string, by: string): Promise<readonly Redriven[]> {
  await openOne(db, id)
  const redriven = await redrive(db, { deadLetterIds: [id], by })
  if (redriven.length > 0) return redriven
  const reason = whyNot(await openOne(db, id))
  throw new PosthornError('NOT_RETRYABLE', { what: 'dead letter', id, reason })
}

function whyNot({ subscription, purgedAt }: DeadLetter): string {
  if (purgedAt !== null) return 'its event was purged'
  return subscription === null ? 'no subscription wants it' : 'its subscription or its event is gone'
}

/** Redrives dead letters that match, in the order of their events. */
export async function redriveSome(
  db: Database,
  filter: DeadLetterFilter,
  { by, max }: { readonly by: string; readonly max: number },
): Promise<RedrivenSome> {
  const chosen = await chooseLetters(db, filter, max + 1)
  const deadLetterIds = chosen.slice(0, max)
  const redriven = deadLetterIds.length === 0 ? [] : await redrive(db, { deadLetterIds, by })
  return { redriven, more: chosen.length > max }
}

/** Deletes a dead letter. Throws NOT_FOUND or ALREADY_RETRIED. */
export async function discardOne(db: Database, id: string, by: string): Promise<void> {
  await openOne(db, id)
  if (await discardLetter(db, { id, by })) return
  await openOne(db, id)
}

/** A dead letter that was not retried. Throws NOT_FOUND or ALREADY_RETRIED. */
export async function openOne(db: Database, id: string): Promise<DeadLetter> {
  const letter = await getDeadLetter(db, id)
  if (letter === undefined) throw new PosthornError('NOT_FOUND', { what: 'dead letter', id })
  const { redrivenAt, redrivenBy } = letter
  if (redrivenAt === null) return letter
  throw new PosthornError('ALREADY_RETRIED', { id, by: redrivenBy, at: redrivenAt.toISOString() })
}
