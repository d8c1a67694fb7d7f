import { numberArray } from '../db/array.ts'
import type { Connection } from '../db/database.ts'
import {
  lockEventsStatement,
  lockLettersStatement,
  sendAgainStatement,
  wakeStatement,
} from './send-again-statements.ts'

export interface SendAgainRequest {
  readonly replay: string
  readonly kind: 'recover' | 'replay'
  readonly subscription: number
  readonly eventIds: readonly number[]
  /** Who asked for it. */
  readonly by: string
}

export interface SentAgain {
  readonly done: number
  /** Deliveries that were still waiting or leased, or that were redriven meanwhile. */
  readonly skipped: number
  /** Deliveries whose event is gone or purged. */
  readonly removed: number
}

/**
 * Gives finished deliveries of one subscription a fresh budget of attempts, as `redrive` does. Two others could send the same
 * deliveries, and both wait: a redrive for the lock of the dead letter, another replay for the lock of the subscription that the
 * caller holds. So the state of the deliveries is read by a statement of its own, after the locks.
 */
export async function sendAgain(
  tx: Connection,
  db: { readonly schema: string },
  { replay, kind, subscription, eventIds, by }: SendAgainRequest,
): Promise<SentAgain> {
  if (eventIds.length === 0) return { done: 0, skipped: 0, removed: 0 }
  const ids = numberArray(eventIds)
  await tx.run(lockEventsStatement(db), [ids])
  await tx.run(lockLettersStatement(db), [subscription, ids])
  const values = [subscription, ids, kind, replay, by]
  const [row] = await tx.run<[kept: number, done: number]>(sendAgainStatement(db), values)
  const [kept, done] = row as [number, number]
  if (done > 0) await tx.run(wakeStatement(db), [])
  return { done, skipped: kept - done, removed: eventIds.length - kept }
}
