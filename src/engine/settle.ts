import { numberArray, textArray } from '../db/array.ts'
import type { Connection, Database } from '../db/database.ts'
import type { Settlement } from '../domain/settlement.ts'
import { settleStatement } from './settle-statements.ts'

/** `'finalized'`: its consumer ended it with errors. `'lease_expired'`: a reclaim buried it, not its worker. */
export type BurialCause = 'finalized' | 'lease_expired'

/** What becomes of one delivery, and what the audit records of its attempt. */
export interface SettleRequest {
  readonly runId: number
  readonly token: number
  readonly eventId: number
  readonly settlement: 'completed' | 'retried' | 'snoozed' | 'released' | 'buried' | 'cancelled'
  /** For a retry or a snooze: the time until it is due. */
  readonly afterMs: number | null
  /** Failures so far, this attempt included. */
  readonly failures: number
  readonly reason: string | null
  /** Only for a burial that is not a failure of the worker. */
  readonly cause?: BurialCause
  /** How long after the lease the attempt began, and how long it took, by the worker's clock. */
  readonly startedAfterMs: number | null
  readonly executionMs: number | null
  readonly statusCode: number | null
}

const names = {
  complete: 'completed',
  retry: 'retried',
  snooze: 'snoozed',
  bury: 'buried',
  release: 'released',
  cancel: 'cancelled',
} as const

/** The lease that is settled, with the failures before this attempt. */
type SettledLease = Pick<SettleRequest, 'runId' | 'token' | 'eventId' | 'failures'>

/** What the worker measured. */
type Measured = Partial<Pick<SettleRequest, 'startedAfterMs' | 'executionMs' | 'statusCode'>>

export function settleRequest(
  lease: SettledLease,
  settlement: Settlement | { readonly kind: 'release' | 'cancel' },
  { startedAfterMs = null, executionMs = null, statusCode = null }: Measured = {},
): SettleRequest {
  return {
    ...lease,
    settlement: names[settlement.kind],
    afterMs: 'afterMs' in settlement ? settlement.afterMs : null,
    failures: 'failures' in settlement ? settlement.failures : lease.failures,
    reason: 'reason' in settlement ? settlement.reason : null,
    startedAfterMs,
    executionMs,
    statusCode,
  }
}

/** Settles many deliveries in one statement. Returns the positions of those whose lease is no longer held. */
export async function settle(db: Database, requests: readonly SettleRequest[]): Promise<number[]> {
  const rows = await db.once<[position: number]>(settleStatement(db), settleValues(requests), {
    indexPlans: true,
    hashJoins: true,
  })
  return rows.map(([position]) => position)
}

/** The same inside a transaction: the caller's effect and the settlement commit together or not at all. */
export async function settleIn(
  tx: Connection,
  db: { readonly schema: string },
  requests: readonly SettleRequest[],
): Promise<number[]> {
  const rows = await tx.run<[position: number]>(settleStatement(db), settleValues(requests))
  return rows.map(([position]) => position)
}

export function settleValues(requests: readonly SettleRequest[]): unknown[] {
  const plain = requests.every((request) => request.settlement === 'completed')
  return [
    numberArray(requests.map((request) => request.runId)),
    numberArray(tokensOf(requests)),
    numberArray(requests.map((request) => request.eventId)),
    plain ? null : textArray(requests.map((request) => request.settlement)),
    plain ? null : numberArray(requests.map((request) => request.afterMs)),
    plain ? null : numberArray(requests.map((request) => request.failures)),
    plain ? null : textArray(requests.map((request) => request.reason)),
    numberArray(requests.map((request) => request.startedAfterMs)),
    numberArray(requests.map((request) => request.executionMs)),
    numberArray(requests.map((request) => request.statusCode)),
    plain ? null : textArray(requests.map((request) => request.cause ?? null)),
  ]
}

/** A second settlement of the same delivery in one statement gets no token, so that it is rejected as it would be later. */
function tokensOf(requests: readonly SettleRequest[]): (number | null)[] {
  const seen = new Set<string>()
  return requests.map(({ runId, token, eventId }) => {
    const name = `${runId}/${token}/${eventId}`
    if (seen.has(name)) return null
    seen.add(name)
    return token
  })
}
