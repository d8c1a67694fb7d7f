import type { LeasedRun } from '../domain/delivery.ts'
import { newToken } from '../engine/lease-tokens.ts'
import type { DeskParts, DeskRequest } from './lease-desk.ts'
import { leaseOldest } from './lease-oldest.ts'

export interface LeaseBatchesParts extends Omit<DeskParts, 'given'> {
  readonly trouble: (error: unknown, doing: string) => void
}

/** The most characters of payloads in one answer, estimated from payloads seen lately. */
const answerCharsMax = 16 * 2 ** 20

/** Serves workers that ask for several deliveries at once, and those of subscriptions with a limit. */
export class LeaseBatches {
  readonly #parts: LeaseBatchesParts
  /** The average number of deliveries in a run, by subscription: it says how many runs to lease. */
  readonly #deliveriesPerRun = new Map<number, number>()
  /** The average length of payloads, by subscription: it says how many fit into an answer. */
  readonly #chars = new Map<number, number>()

  constructor(parts: LeaseBatchesParts) {
    this.#parts = parts
  }

  /** The oldest, in their order. */
  async lease(asked: DeskRequest, limit: number): Promise<readonly LeasedRun[]> {
    const { trouble, tokens } = this.#parts
    const { no } = asked.subscription
    const take = (bounds: { deliveriesMax: number; runsMax: number; suspects: boolean }) =>
      leaseOldest(this.#parts, { ...asked, tokens, token: newToken(), ...bounds })
    const perRun = this.#deliveriesPerRun.get(no) ?? 1
    const deliveriesMax = Math.min(limit, Math.ceil(answerCharsMax / (this.#chars.get(no) ?? 1)))
    const runsMax = Math.min(deliveriesMax, Math.ceil(deliveriesMax / perRun) + 1)
    const runs = await take({ deliveriesMax, runsMax, suspects: asked.suspects })
    this.#learn(no, runs)
    const left = deliveriesMax - countDeliveries(runs)
    // The runs were shorter than average, so there may be more. But a suspect run is leased alone.
    if (left > 0 && runs.length === runsMax && !runs.some((run) => run.suspect)) {
      try {
        runs.push(...(await take({ deliveriesMax: left, runsMax: left, suspects: false })))
      } catch (error) {
        // What is already leased must still reach the worker.
        trouble(error, 'leasing more deliveries for a worker')
      }
    }
    return runs.sort((one, other) => firstIdOf(one) - firstIdOf(other))
  }

  #learn(subscription: number, runs: readonly LeasedRun[]): void {
    if (runs.length === 0) return
    const deliveries = countDeliveries(runs)
    const chars = runs
      .flatMap((run) => run.deliveries)
      .reduce((sum, one) => sum + one.event.payloadText.length, 0)
    const smoothed = ((this.#chars.get(subscription) ?? 1) * 7 + chars / deliveries) / 8
    this.#chars.set(subscription, Math.max(smoothed, chars / deliveries, 1))
    const before = this.#deliveriesPerRun.get(subscription) ?? 1
    this.#deliveriesPerRun.set(subscription, before + (deliveries / runs.length - before) / 4)
  }
}

/** The statement returns runs in any order. */
function firstIdOf({ deliveries }: LeasedRun): number {
  return deliveries[0]?.event.id ?? 0
}

function countDeliveries(runs: readonly LeasedRun[]): number {
  return runs.reduce((sum, run) => sum + run.deliveries.length, 0)
}
