import { setTimeout as delay } from 'node:timers/promises'
import type { Admitter } from './admit.ts'

/**
 * Cancelling and burying search for deliveries in rounds: one that moves from row to row, or whose row is locked, is missed by a
 * round. After two seconds they give up.
 */
export const roundsMax = 40
const roundPauseMs = 50
/** Per round: some 100,000 arrivals, or a short wait for another process that admits them. */
const admissionsMax = 10
const busyPauseMs = 20

/** Admits until the inbox is empty, or until that has taken long: publishers may be faster. */
export async function admitArrivals(admitter: Admitter): Promise<void> {
  for (let turn = 0; turn < admissionsMax; turn++) {
    const { busy, drained } = await admitter.admit()
    if (drained) return
    if (busy) await delay(busyPauseMs)
  }
}

export async function untilNextRound(): Promise<void> {
  await delay(roundPauseMs)
}
