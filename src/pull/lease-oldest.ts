import { setTimeout as delay } from 'node:timers/promises'
import type { Database } from '../db/database.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import { isLimited, type Subscription } from '../domain/subscription.ts'
import type { Admitter } from '../engine/admit.ts'
import { type LeaseRequest, lease } from '../engine/lease.ts'
import type { LeaseTokens } from '../engine/lease-tokens.ts'
import { countOffers } from './offers.ts'

/** Leases the oldest waiting deliveries of a pull subscription: for `pull.ts` and for `polling.ts`. */

/** What a worker asks for. */
export interface Wanted {
  readonly subscription: Subscription
  /** Only deliveries with any of these tags; null: with any tags or none. */
  readonly tags: readonly string[] | null
  readonly suspects: boolean
}

export interface LeaseOldestRequest extends Wanted {
  readonly leaseMs: number
  readonly token: number
  readonly worker: number
  readonly deliveriesMax: number
  readonly runsMax: number
  readonly begins: LeaseRequest['begins']
  /** A lease that fails, perhaps after its commit, is handed back by its token. */
  readonly tokens: LeaseTokens
}

/** What looking for deliveries needs. */
export interface LookParts {
  readonly db: Database
  readonly admitter: Admitter
}

/** How often, and how long each time, to wait while another process admits arrivals or leases the same deliveries. */
const busyTurnsMax = 20
const contestedTurnsMax = 3
const busyPauseMs = 5

/** An empty answer means that nothing waits: while another process has deliveries in its hands, this call looks again. */
export async function leaseOldest(parts: LookParts, request: LeaseOldestRequest): Promise<LeasedRun[]> {
  const { admitter } = parts
  if (admitter.isDue()) await admitter.admit()
  let runs = await leaseRuns(parts.db, request)
  if (runs.length > 0) return runs
  await untilNothingWaits(parts, request, async () => {
    runs = await leaseRuns(parts.db, request)
    return runs.length > 0 ? 'enough' : 'nothing'
  })
  return runs
}

/**
 * Calls `take` until it has enough or nothing waits: admits arrivals, and looks again while another process has deliveries in its
 * hands.
 */
export async function untilNothingWaits(
  { db, admitter }: LookParts,
  wanted: Wanted,
  take: () => Promise<'enough' | 'some' | 'nothing'>,
): Promise<void> {
  let contested = 0
  for (let turn = 0; turn < busyTurnsMax; turn++) {
    const { moved, busy } = await admitter.admit()
    if (busy) await delay(busyPauseMs)
    else if (moved === 0) {
      if (contested++ === contestedTurnsMax || !(await isOffered(db, wanted))) return
      await delay(busyPauseMs)
    }
    const found = await take()
    if (found === 'enough') return
    if (found === 'some') contested = 0
  }
}

async function leaseRuns(db: Database, request: LeaseOldestRequest): Promise<LeasedRun[]> {
  const { subscription, leaseMs, tags, token, worker, deliveriesMax, runsMax, begins, suspects } = request
  const want = {
    subscription: subscription.no,
    eventsMax: deliveriesMax,
    runsMax,
    laneMax: 1,
    suspects,
    leaseMs,
    limited: isLimited(subscription),
  }
  const asked = { wants: [want], token, worker, begins, tags, payloads: 'bounded' } as const
  return lease(db, asked).catch((error: unknown) => {
    request.tokens.lost(worker, token)
    throw error
  })
}

/** Leases of a limited subscription follow each other, so what such a lease leaves behind is over the limit. */
async function isOffered(db: Database, { subscription, tags, suspects }: Wanted): Promise<boolean> {
  if (isLimited(subscription)) return false
  const wish = { subscription: subscription.no, suspects, deliveriesMax: 1 }
  const wishes = (tags ?? [null]).map((tag) => ({ ...wish, tag }))
  return (await countOffers(db, wishes)).some((deliveries) => deliveries > 0)
}
