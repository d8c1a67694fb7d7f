import type { Database } from '../db/database.ts'
import { checkDeadLetterIds } from '../domain/id.ts'
import type { Admitter } from '../engine/admit.ts'
import { admitArrivals, roundsMax, untilNextRound } from '../engine/rounds.ts'
import { PosthornError } from '../errors.ts'
import {
  buryStatement,
  discardStatement,
  findBlockingLetterStatement,
  isWaitingStatement,
  redriveStatement,
  retryWaitingStatement,
  unblockLaneStatement,
} from './repair-statements.ts'

/** What operators can do about deliveries that wait, have ended, or stop their lane: one statement each. */

export interface DeliveryRequest {
  readonly eventId: number
  readonly subscription: number
}

export interface Buried {
  /** The subscription's name, and the event's type. */
  readonly name: string
  readonly type: string | null
  /** The ordering key of the lane that stops at this delivery; null: none does. */
  readonly stopsLane: string | null
}

export interface BuryRequest extends DeliveryRequest {
  readonly reason: string
  /** What becomes of a lane that loses its head: what the subscription says, or it continues in any case. */
  readonly lane: 'as usual' | 'goes on'
}

/**
 * Makes a dead letter of a delivery, wherever it waits. If it was the head of its lane, the lane continues or stops as after any
 * burial; behind the head it does not stop the lane. Undefined: the delivery does not wait, or a worker has it.
 */
export async function buryWaiting(
  db: Database,
  admitter: Admitter,
  request: BuryRequest,
): Promise<Buried | undefined> {
  const { eventId, subscription, reason, lane } = request
  const values = [[eventId], subscription, reason, lane === 'as usual']
  for (let round = 0; round < roundsMax; round++) {
    await admitArrivals(admitter)
    const [row] = await db.once<BuriedRow>(buryStatement(db), values, {})
    if (row !== undefined) return { name: row[0], type: row[1], stopsLane: row[2] }
    if (!(await waits(db, request))) return undefined
    await untilNextRound()
  }
  throw new PosthornError('STILL_MOVING', { eventId, rounds: roundsMax })
}

/** Whether the delivery still waits: it may have been moving from one row to another. */
async function waits(db: Database, { eventId, subscription }: DeliveryRequest): Promise<boolean> {
  const [row] = await db.run<[waits: boolean]>(isWaitingStatement(db), [eventId, subscription])
  return (row as [boolean])[0]
}

type BuriedRow = [name: string, type: string | null, stopsLane: string | null]

/**
 * Makes a delivery due now that waits for another attempt; its failures stay counted. A delivery that is due stays as it is. False:
 * the delivery was never attempted, or a worker has it, or it has ended.
 */
export async function retryWaiting(
  db: Database,
  request: DeliveryRequest & { readonly by: string },
): Promise<boolean> {
  const { eventId, subscription, by } = request
  const rows = await db.once<[id: number]>(retryWaitingStatement(db), [eventId, subscription, by], {})
  return rows.length > 0
}

export interface Redriven {
  readonly deadLetterId: string
  readonly eventId: number
  readonly subscription: number
}

/**
 * Gives dead letters a fresh budget of attempts. A delivery without an ordering key is ready at once; one with a key goes to the end
 * of its lane, in the order of events; one that blocks its lane goes back to the head. A letter that no subscription wanted is
 * routed again. Letters that were redriven before, or whose event is gone or purged, are left alone.
 */
export async function redrive(
  db: Database,
  request: { readonly deadLetterIds: readonly string[]; readonly by: string },
): Promise<Redriven[]> {
  checkDeadLetterIds(request.deadLetterIds)
  const rows = await db.once<RedriveRow>(redriveStatement(db), [request.deadLetterIds, request.by], {})
  return rows.map(([deadLetterId, eventId, subscription]) => ({ deadLetterId, eventId, subscription }))
}

type RedriveRow = [deadLetterId: string, eventId: number, subscription: number]

/**
 * Deletes a dead letter. If its lane stopped at it, the lane continues. False: there is no such letter, or it was redriven.
 */
export async function discardLetter(db: Database, request: { id: string; by: string }): Promise<boolean> {
  const rows = await db.once<[id: string]>(discardStatement(db), [request.id, request.by], {})
  return rows.length > 0
}

export interface LaneRequest {
  readonly subscription: number
  readonly orderingKey: string
}

/**
 * Lets a blocked lane continue without its buried head. `skip` leaves the head among the dead letters, `discard` deletes its dead
 * letter. Returns the head's event id, or undefined if the lane is not blocked.
 */
export async function unblockLane(
  db: Database,
  request: LaneRequest & { readonly verb: 'skip' | 'discard'; readonly by?: string },
): Promise<number | undefined> {
  const { subscription, orderingKey, verb, by } = request
  const reason = by === undefined ? 'discarded' : `discarded by ${by}`
  const values = [subscription, orderingKey, verb === 'discard', reason]
  const [row] = await db.once<[eventId: number]>(unblockLaneStatement(db), values, {})
  return row?.[0]
}

/** The dead letter of a blocked lane's head: redriving it retries the head. */
export async function blockingLetter(db: Database, request: LaneRequest): Promise<string | undefined> {
  const { subscription, orderingKey } = request
  const [row] = await db.run<[id: string]>(findBlockingLetterStatement(db), [subscription, orderingKey])
  return row?.[0]
}
