import type { Database } from '../db/database.ts'
import { heartbeatStatement } from './held-lease-statements.ts'

export interface Heartbeat {
  readonly runId: number
  readonly token: number
  readonly leaseMs: number
  /** The deliveries of the run that are being attempted now; null: as at the last heartbeat. */
  readonly begun: readonly number[] | null
}

export interface HeldRun {
  readonly runId: number
  readonly token: number
  /** Deliveries that an operator has cancelled since the lease. */
  readonly cancelled: readonly number[]
  /** Null: the lease is still held, but not renewed, because a transaction that settles the run has locked it. */
  readonly leasedUntil: Date | null
  /** The subscription is paused, suspended or deleted: deliveries that have not begun must be handed back. */
  readonly isHeld: boolean
}

/** Renews many leases at once. Returns those that are still held: the others are lost. */
export async function heartbeat(db: Database, beats: readonly Heartbeat[]): Promise<HeldRun[]> {
  const values = [
    beats.map((beat) => beat.runId),
    beats.map((beat) => beat.token),
    beats.map((beat) => beat.leaseMs),
    beats.map((beat) => beat.begun && `{${beat.begun.join(',')}}`),
  ]
  const rows = await db.once<HeldRow>(heartbeatStatement(db), values, {
    durable: false,
    indexPlans: true,
    hashJoins: true,
  })
  return rows.map(([runId, cancelled, leasedUntil, isHeld, token]) => ({
    runId,
    token,
    cancelled: cancelled ?? [],
    leasedUntil,
    isHeld,
  }))
}

type HeldRow = [
  runId: number,
  cancelled: number[] | null,
  leasedUntil: Date | null,
  isHeld: boolean,
  token: number,
]
