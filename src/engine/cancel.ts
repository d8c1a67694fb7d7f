import { numberArray, textArray } from '../db/array.ts'
import type { Connection, Database } from '../db/database.ts'
import { checkEventIds } from '../domain/id.ts'
import { PosthornError } from '../errors.ts'
import type { Admitter } from './admit.ts'
import {
  anyLeftStatement,
  cancelRowsStatement,
  cancelStatement,
  notifyCancelledStatement,
} from './cancel-statements.ts'
import { admitArrivals, roundsMax, untilNextRound } from './rounds.ts'

export interface CancelRequest {
  readonly eventIds: readonly number[]
  /** Only the deliveries of this subscription; null: all. */
  readonly subscription: number | null
  readonly reason: string
}

/** Whole rows, for a caller that knows them: no array has to be searched. */
export interface CancelRowsRequest {
  readonly runIds: readonly number[]
  readonly chunks: readonly ChunkKey[]
  readonly reason: string
}

/** The primary key of a row of `lane_queue`. */
export type ChunkKey = [subscription: number, orderingKey: string, position: number]

export interface Cancelled {
  readonly eventId: number
  readonly subscription: number
  /**
   * A worker has it leased. If its attempt has begun, a heartbeat tells the worker, which settles it as it sees fit; otherwise
   * the attempt does not begin.
   */
  readonly told: boolean
}

/**
 * Cancels the deliveries of these events wherever they wait, also in the inbox. Throws CANCEL_UNFINISHED if some of them kept
 * moving, or if the database went away halfway: what is cancelled stays cancelled, and calling again continues.
 */
export async function cancelEvents(
  db: Database,
  admitter: Admitter,
  request: CancelRequest,
): Promise<Cancelled[]> {
  checkEventIds(request.eventIds)
  const cancelled = new Map<string, Cancelled>()
  const unfinished = (rounds: number, options?: ErrorOptions) =>
    new PosthornError('CANCEL_UNFINISHED', { events: request.eventIds.length, rounds }, options)
  for (let round = 0; round < roundsMax; round++) {
    try {
      await admitArrivals(admitter)
      const found = await cancel(db, request)
      for (const one of found) cancelled.set(`${one.eventId}/${one.subscription}`, one)
      if (found.some(({ told }) => told)) await db.run(notifyCancelledStatement(db), [])
      if (!(await isAnyLeft(db, request))) return [...cancelled.values()]
    } catch (error) {
      // Some are cancelled by now: the caller must not believe that none is.
      throw cancelled.size === 0 ? error : unfinished(round + 1, { cause: error })
    }
    await untilNextRound()
  }
  throw unfinished(roundsMax)
}

/**
 * Cancels deliveries that wait in runs or lanes. The arrays of waiting runs are searched without an index: cancelling is rare,
 * and an index over every waiting delivery would slow down every publish. The inbox must be admitted before.
 *
 * A delivery that is moving to another row, or whose row is locked, is missed: see `cancelEvents`.
 */
export async function cancel(db: Database, request: CancelRequest | CancelRowsRequest): Promise<Cancelled[]> {
  if ('runIds' in request) return cancelRows(db, request)
  const { eventIds, subscription, reason } = request
  const rows = await db.once<CancelRow>(cancelStatement(db), [eventIds, subscription, reason], {})
  return rows.map(([eventId, subscription, told]) => ({ eventId, subscription, told }))
}

async function cancelRows(db: Database, { runIds, chunks, reason }: CancelRowsRequest): Promise<Cancelled[]> {
  const values = [
    numberArray(runIds),
    numberArray(chunks.map(([subscription]) => subscription)),
    textArray(chunks.map(([, orderingKey]) => orderingKey)),
    numberArray(chunks.map(([, , position]) => position)),
    reason,
  ]
  const rows = await db.once<CancelRow>(cancelRowsStatement(db), values, { indexPlans: true })
  return rows.map(([eventId, subscription, told]) => ({ eventId, subscription, told }))
}

/** Whether any of these deliveries still waits, or is leased without a mark that it is cancelled. */
async function isAnyLeft(
  db: Database,
  { eventIds, subscription }: Omit<CancelRequest, 'reason'>,
): Promise<boolean> {
  const [row] = await db.run<[isAnyLeft: boolean]>(anyLeftStatement(db), [eventIds, subscription])
  return (row as [boolean])[0]
}

/** Deliveries of one subscription that an operator cancelled while a worker had them. */
export interface CancelRequested {
  readonly subscription: number
  readonly eventIds: readonly number[]
}

/**
 * Ends deliveries that were just taken or handed back and that an operator had cancelled meanwhile: the next worker would not
 * know.
 */
export async function cancelRequested(
  tx: Connection,
  db: { readonly schema: string },
  requested: readonly CancelRequested[],
): Promise<void> {
  for (const { subscription, eventIds } of requested) {
    if (eventIds.length > 0) await tx.run(cancelStatement(db), [eventIds, subscription, 'cancelled'])
  }
}

type CancelRow = [eventId: number, subscription: number, told: boolean]
