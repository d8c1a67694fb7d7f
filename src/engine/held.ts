import { numberArray } from '../db/array.ts'
import type { Database } from '../db/database.ts'
import type { CancelRequested } from './cancel.ts'
import { readCancelledStatement, readHoldsStatement } from './held-lease-statements.ts'

/** Whether a worker holds deliveries that it must not begin. */
export interface Holds {
  /** One of the subscriptions is paused, suspended or deleted. */
  readonly isAnyHeld: boolean
  /** The deliveries of the worker that an operator has cancelled. */
  readonly cancelled: readonly CancelRequested[]
}

/** For all leases of a worker at once. The cost grows with what was cancelled, not with what is leased. */
export async function readHolds(
  db: Database,
  { subscriptions, worker }: { readonly subscriptions: readonly number[]; readonly worker: number },
): Promise<Holds> {
  const rows = await db.once<HoldRow>(
    readHoldsStatement(db),
    [numberArray(subscriptions), worker],
    readOptions,
  )
  const cancelled = rows.flatMap(([subscription, eventIds]) =>
    eventIds === null ? [] : [{ subscription, eventIds }],
  )
  return { isAnyHeld: rows.length > cancelled.length, cancelled }
}

/** The cancelled deliveries among all that the holder of a run has leased through the same subscription. */
export async function readCancelled(db: Database, runId: number): Promise<number[]> {
  const rows = await db.once<[eventId: number]>(readCancelledStatement(db), [runId], readOptions)
  return rows.map(([eventId]) => eventId)
}

const readOptions = { readOnly: true, indexPlans: true } as const

/** Without event ids: the subscription gives out nothing. */
type HoldRow = [subscription: number, eventIds: number[] | null]
