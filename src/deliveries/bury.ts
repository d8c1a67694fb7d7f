import type { Database } from '../db/database.ts'
import type { Admitter } from '../engine/admit.ts'
import { admitArrivals, roundsMax, untilNextRound } from '../engine/rounds.ts'
import { PosthornError } from '../errors.ts'
import { buryStatement, isWaitingStatement } from './repair-statements.ts'

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
