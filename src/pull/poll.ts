import { setTimeout as delay } from 'node:timers/promises'
import type { Database } from '../db/database.ts'
import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import { isLimited, type Subscription } from '../domain/subscription.ts'
import type { Admitter } from '../engine/admit.ts'
import { type LeaseRequest, lease } from '../engine/lease.ts'
import type { LeaseTokens } from '../engine/lease-tokens.ts'
import { type SettleRequest, settleRequest } from '../engine/settle.ts'
import { countOffers } from './offers.ts'

export interface PollRequest {
  readonly subscription: Subscription
  readonly leaseMs: number
  /** Any of these; null: whatever its tags. */
  readonly tags: readonly string[] | null
  readonly token: number
  readonly worker: number
  /** How many deliveries at most, and in how many runs to look for them. */
  readonly eventsMax: number
  readonly runsMax: number
  readonly begins: LeaseRequest['begins']
  readonly suspects: boolean
  /** A lease that fails, perhaps after its commit, is handed back by its token. */
  readonly tokens: LeaseTokens
}

/** How often, and how long each time, to wait for somebody else who is letting arrivals in or leasing beside us. */
const busyTurnsMax = 20
const contestedTurnsMax = 3
const busyPauseMs = 5

/**
 * Leases the oldest deliveries of a pull subscription that wait, arrivals included. Nothing means that there was
 * nothing: what only somebody else had in hands is looked for again.
 */
export async function poll(db: Database, admitter: Admitter, request: PollRequest): Promise<LeasedRun[]> {
  if (admitter.isDue()) await admitter.admit()
  let contested = 0
  for (let turn = 0; ; turn++) {
    const runs = await leaseRuns(db, request)
    if (runs.length > 0 || turn === busyTurnsMax) return runs
    const { moved, busy } = await admitter.admit()
    if (busy) await delay(busyPauseMs)
    else if (moved === 0) {
      if (contested++ === contestedTurnsMax || !(await isOffered(db, request))) return []
      await delay(busyPauseMs)
    }
  }
}

async function leaseRuns(db: Database, request: PollRequest): Promise<LeasedRun[]> {
  const { subscription, leaseMs, tags, token, worker, eventsMax, runsMax, begins, suspects } = request
  const limited = isLimited(subscription)
  const want = { subscription: subscription.no, eventsMax, runsMax, laneMax: 1, suspects, leaseMs, limited }
  const asked = { wants: [want], token, worker, begins, tags, payloads: 'bounded' } as const
  return lease(db, asked).catch((error: unknown) => {
    request.tokens.lost(worker, token)
    throw error
  })
}

/** Limited leases go one after the other: what such a one leaves, it leaves because of the limit. */
async function isOffered(db: Database, { subscription, tags, suspects }: PollRequest): Promise<boolean> {
  if (isLimited(subscription)) return false
  const wish = { subscription: subscription.no, suspects, deliveriesMax: 1 }
  const offers = await countOffers(
    db,
    (tags ?? [null]).map((tag) => ({ ...wish, tag })),
  )
  return offers.some((deliveries) => deliveries > 0)
}

/** How to end such a lease, if all went well. */
export function completionOf({ run, event, failures }: LeasedDelivery): SettleRequest {
  return settleRequest({ runId: run.id, token: run.token, eventId: event.id, failures }, { kind: 'complete' })
}
