import { setTimeout as delay } from 'node:timers/promises'
import type { Database } from '../db/database.ts'
import type { LeasedDelivery } from '../domain/delivery.ts'
import type { Subscription } from '../domain/subscription.ts'
import type { Admitter } from './admit.ts'
import { lease } from './lease.ts'
import type { SettleRequest } from './settle.ts'

export interface PollRequest {
  readonly subscription: Subscription
  readonly leaseMs: number
  /** Any of these; null: whatever its tags. */
  readonly tags: readonly string[] | null
  readonly token: number
  readonly worker: number
}

/** How often, and how long each time, to wait for somebody else who is letting arrivals in. */
const busyTurnsMax = 20
const busyPauseMs = 5

/** Leases the oldest delivery of a pull subscription that waits, arrivals included. Whoever polls has begun. */
export async function poll(
  db: Database,
  admitter: Admitter,
  request: PollRequest,
): Promise<LeasedDelivery | undefined> {
  if (admitter.isDue()) await admitter.admit()
  for (let turn = 0; ; turn++) {
    const delivery = await leaseOne(db, request)
    if (delivery !== undefined || turn === busyTurnsMax) return delivery
    const { moved, busy } = await admitter.admit()
    if (busy) await delay(busyPauseMs)
    else if (moved === 0) return undefined
  }
}

async function leaseOne(db: Database, request: PollRequest): Promise<LeasedDelivery | undefined> {
  const { subscription, leaseMs, tags, token, worker } = request
  const limited = subscription.maxConcurrency !== null || subscription.ratePerSecond !== null
  const one = { eventsMax: 1, runsMax: 1, laneMax: 1, suspects: true }
  const wants = [{ subscription: subscription.no, ...one, leaseMs, limited }]
  const [run] = await lease(db, { wants, token, worker, begins: 'granted', tags })
  return run?.deliveries[0]
}

/** How to end such a lease, if all went well. */
export function completionOf({ run, event, failures }: LeasedDelivery): SettleRequest {
  return {
    runId: run.id,
    token: run.token,
    eventId: event.id,
    settlement: 'completed',
    afterMs: null,
    failures,
    reason: null,
    startedAfterMs: null,
    executionMs: null,
    statusCode: null,
  }
}
