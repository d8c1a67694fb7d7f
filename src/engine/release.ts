import { setTimeout as delay } from 'node:timers/promises'
import type { Connection, Database } from '../db/database.ts'
import { type CancelRequested, cancelRequested } from './cancel.ts'
import { releaseStatement } from './held-lease-statements.ts'

export interface Release {
  readonly runId: number
  readonly token: number
}

/** A lease statement locks runs for a moment, also one that was leased meanwhile. */
const lockedTurnsMax = 20
const lockedPauseMs = 10

/**
 * Hands whole runs back in which no attempt has begun: nothing is counted or recorded. Deliveries that an operator has
 * cancelled meanwhile do not come back. A run that stays locked is being settled, and is left alone.
 */
export async function release(db: Database, releases: readonly Release[]): Promise<void> {
  await releaseAll(db, releases, 'any')
}

/**
 * The same for leases whose answer may not have reached the worker. A worker that has renewed its lease, or reported a start,
 * has received the answer and keeps the lease.
 */
export async function releaseUnheard(db: Database, releases: readonly Release[]): Promise<void> {
  await releaseAll(db, releases, 'unheard')
}

/** `'unheard'`: only runs whose worker has been silent since it leased them. */
type Which = 'any' | 'unheard'

async function releaseAll(db: Database, releases: readonly Release[], which: Which): Promise<void> {
  let left = releases
  for (let turn = 0; turn < lockedTurnsMax; turn++) {
    if (turn > 0) await delay(lockedPauseMs)
    const locked = await db.transaction((tx) => releaseIn(tx, db, left, which), {
      indexPlans: true,
      hashJoins: true,
    })
    if (locked.size === 0) return
    left = left.filter(({ runId }) => locked.has(runId))
  }
}

/** Returns the runs that are still leased but locked. */
async function releaseIn(
  tx: Connection,
  db: Database,
  releases: readonly Release[],
  which: Which,
): Promise<Set<number>> {
  const values = [releases.map((one) => one.runId), releases.map((one) => one.token), which]
  const rows = await tx.run<ReleaseRow>(releaseStatement(db), values)
  const locked = new Set<number>()
  const requested: CancelRequested[] = []
  for (const [runId, subscription, eventIds] of rows) {
    if (subscription === null) locked.add(runId)
    else requested.push({ subscription, eventIds })
  }
  await cancelRequested(tx, db, requested)
  return locked
}

/** Without a subscription: the run is locked. */
type ReleaseRow = [runId: number, subscription: number | null, cancelled: number[]]
