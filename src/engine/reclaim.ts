import type { Connection, Database } from '../db/database.ts'
import type { RetryPolicy } from '../domain/retry.ts'
import { decideSettlement } from '../domain/settlement.ts'
import { cancelRequested } from './cancel.ts'
import {
  findEndedLeasesStatement,
  shortenWaitsStatement,
  takeBackStatement,
  wasClockSetBackStatement,
} from './reclaim-statements.ts'
import { type SettleRequest, settleIn } from './settle.ts'

export interface Reclaimed {
  readonly subscription: number
  /** The subscription's name, and the event's type. */
  readonly name: string
  readonly type: string | null
  readonly eventId: number
  readonly worker: string | null
  readonly failures: number
  readonly buried: boolean
  /** The lane that stops if it is buried; null: none. */
  readonly stopsLane: string | null
}

/**
 * Takes back runs whose lease has ended. Only deliveries whose attempt has begun are charged with a failure, by the same decision
 * as any other failure. All deliveries of these runs are suspects now: they are leased one by one, so that only the delivery that
 * crashed the worker is charged again. Deliveries that an operator has cancelled meanwhile end here, charged or not.
 */
export async function reclaim(db: Database): Promise<{ runs: number; charged: Reclaimed[] }> {
  return db.transaction((tx) => reclaimIn(tx, db), { indexPlans: true })
}

const runsMax = 100
const shortenedMax = 1_000

async function reclaimIn(tx: Connection, db: Database): Promise<{ runs: number; charged: Reclaimed[] }> {
  await shortenWaits(tx, db)
  const expired = await tx.run<ExpiredRow>(findEndedLeasesStatement(db), [runsMax])
  if (expired.length === 0) return { runs: 0, charged: [] }

  const charges = expired.flatMap(chargesOf)
  const burials = charges.filter((charge) => charge.buried)
  if (burials.length > 0) await settleIn(tx, db, burials.map(toBurial))
  const retries = charges.filter((charge) => !charge.buried)
  await tx.run(takeBackStatement(db), [
    expired.map(([runId]) => runId),
    retries.map((charge) => charge.runId),
    retries.map((charge) => charge.eventId),
    retries.map((charge) => charge.failures),
  ])
  const requested = expired.map(({ 2: subscription, 11: eventIds }) => ({ subscription, eventIds }))
  await cancelRequested(tx, db, requested)
  return { runs: expired.length, charged: charges }
}

/**
 * After the clock was set back: leases, retries and ended replays from before last from now on no longer than they were given, and
 * a handler that is gone or an endpoint that is suspended counts as gone or suspended since now. A delay or an expiry that the
 * publisher asked for keeps its time.
 */
async function shortenWaits(tx: Connection, db: Database): Promise<void> {
  const [row] = await tx.run<[wasSetBack: boolean]>(wasClockSetBackStatement(db), [])
  if (row?.[0]) await tx.run(shortenWaitsStatement(db), [shortenedMax])
}

interface Charge extends Reclaimed {
  readonly runId: number
  readonly token: number
}

function chargesOf(row: ExpiredRow): Charge[] {
  const [runId, token, subscription, name, worker, begun, types, failures, maxRetries, ...rest] = row
  const [retry, stopsLane, cancelled] = rest
  return begun.map((eventId, place) => {
    // Only a run's head can have failed before.
    const delivery = { failures: place === 0 ? failures : 0, retry, maxRetries }
    const settlement = decideSettlement(delivery, { kind: 'lease_expired' }, 0)
    const buried = settlement.kind === 'bury' && !cancelled.includes(eventId)
    const type = types[place] ?? null
    return {
      runId,
      token,
      subscription,
      name,
      type,
      worker,
      eventId,
      failures: delivery.failures + 1,
      buried,
      stopsLane,
    }
  })
}

function toBurial({ runId, token, eventId, failures }: Charge): SettleRequest {
  return {
    runId,
    token,
    eventId,
    settlement: 'buried',
    afterMs: null,
    failures,
    reason: 'the lease expired',
    cause: 'lease_expired',
    startedAfterMs: null,
    executionMs: null,
    statusCode: null,
  }
}

type ExpiredRow = [
  runId: number,
  token: number,
  subscription: number,
  name: string,
  worker: string | null,
  begun: number[],
  types: (string | null)[],
  failures: number,
  maxFailures: number | null,
  retry: RetryPolicy,
  stopsLane: string | null,
  cancelled: number[],
]
