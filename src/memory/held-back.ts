import type { Signals } from '../core/signals.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import { laneName } from './draw-memory.ts'
import type { OpenQueues } from './persister.ts'

export interface HeldBackOptions {
  readonly queues: OpenQueues
  readonly signals: Pick<Signals, 'emit'>
}

/** Longer than a lease statement takes. */
const rememberedMs = 60_000

/**
 * Lanes that are partly in memory and partly in the database. A run of the database waits until memory has nothing left
 * of its lane; what is published to a lane while such a run is out goes to the database as well, behind it. So no lane is
 * out twice, and each keeps its order.
 */
export class HeldBack {
  readonly #options: HeldBackOptions
  readonly #waiting = new Set<LeasedRun>()
  /** Lanes of the database that have begun since `watch`. */
  #begun = new Set<string>()
  /** When lanes were given up to the database. Monotonic. */
  readonly #givenUpAt = new Map<string, number>()
  /** When whole queues were moved to the database, by subscription. Monotonic. */
  readonly #movedAt = new Map<number, number>()

  constructor(options: HeldBackOptions) {
    this.#options = options
  }

  /** Whether a run of the database has to wait. */
  holds(run: LeasedRun): boolean {
    const queue = this.#options.queues.get(run.subscription)?.queue
    if (queue === undefined || run.laneKey === null) return false
    // Then the run may not begin either, and goes back to the database.
    if (!queue.hold.isOurs(performance.now())) return false
    if (queue.hasLane(run.laneKey)) {
      this.#waiting.add(run)
      return true
    }
    this.#begun.add(laneName(run.subscription, run.laneKey))
    return false
  }

  /** A lane in memory is empty now: runs that waited for it begin. */
  look(): void {
    // A copy: `holds` puts back the runs that have to wait on.
    for (const run of [...this.#waiting]) {
      this.#waiting.delete(run)
      if (!this.holds(run)) this.#options.signals.emit('runMayBegin', run)
    }
  }

  /** The database keeps the lane from now on, with new runs: none of the runs that were leased before begins. */
  giveUp(subscription: number, key: string): void {
    const now = performance.now()
    for (const [lane, at] of this.#givenUpAt) if (now - at > rememberedMs) this.#givenUpAt.delete(lane)
    this.#givenUpAt.set(laneName(subscription, key), now)
    for (const run of [...this.#waiting]) {
      if (run.subscription !== subscription || run.laneKey !== key) continue
      this.#waiting.delete(run)
      this.#options.signals.emit('runDropped', run)
    }
  }

  /** The whole queue is kept in the database from now on: lanes that were leased before may have been made anew. */
  moved(subscription: number): void {
    this.#movedAt.set(subscription, performance.now())
  }

  /** Whether a run was asked for before its lane was given up, and arrived after. */
  isOutdated({ subscription, laneKey }: LeasedRun, askedAt: number): boolean {
    if (laneKey === null) return false
    const givenUpAt = this.#givenUpAt.get(laneName(subscription, laneKey)) ?? Number.NEGATIVE_INFINITY
    const movedAt = this.#movedAt.get(subscription) ?? Number.NEGATIVE_INFINITY
    return askedAt < Math.max(givenUpAt, movedAt)
  }

  /** From now on, lanes of the database that begin are remembered. */
  watch(): void {
    this.#begun = new Set()
  }

  hasBegun(subscription: number, key: string): boolean {
    return this.#begun.has(laneName(subscription, key))
  }
}
