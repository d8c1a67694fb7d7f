import { portionsOf } from '../core/portions.ts'
import type { Signals } from '../core/signals.ts'
import type { Database } from '../db/database.ts'
import { type SettleRequest, settle } from '../engine/settle.ts'
import type { Logger } from '../observe/log.ts'

/** An asynchronous standby may lag this far behind; most leases have ended by then. */
const keptMs = 30_000
const keptMax = 10_000
/** How many settlements one statement repeats. */
const repeatMax = 1_000

export interface RecentSettlementsOptions {
  readonly db: Database
  readonly signals: Signals
  readonly log: Logger
  readonly trouble: (error: unknown, doing: string) => void
}

interface Kept {
  readonly request: SettleRequest
  readonly settledAt: number
}

/**
 * Remembers the settlements of the last seconds, and repeats them after a failover. The new server may lack them: there the
 * lease is still in force, and its worker, which has finished the delivery, would never settle it again.
 */
export class RecentSettlements {
  readonly #options: RecentSettlementsOptions
  #kept: Kept[] = []
  #repeating: Promise<void> = Promise.resolve()

  constructor(options: RecentSettlementsOptions) {
    this.#options = options
    options.signals.on('reconnected', () => this.reconnected())
  }

  remember(requests: readonly SettleRequest[]): void {
    const settledAt = performance.now()
    for (const request of requests) this.#kept.push({ request, settledAt })
    if (this.#kept.length >= 2 * keptMax) this.#kept = this.#kept.slice(-keptMax)
  }

  /** Repeats what the server may lack, once the database answers again after a lost connection. */
  reconnected(): void {
    this.#repeating = this.#repeating.then(() => this.#repeat())
  }

  async stop(): Promise<void> {
    await this.#repeating
  }

  /** The token refuses settlements that the server already has, or whose delivery another worker has leased since. */
  async #repeat(): Promise<void> {
    const { db, log, signals, trouble } = this.#options
    const now = performance.now()
    this.#kept = this.#kept.slice(-keptMax).filter(({ settledAt }) => now - settledAt < keptMs)
    const requests = this.#kept.map(({ request }) => request)
    let count = 0
    try {
      for (const portion of portionsOf(requests, { itemsMax: repeatMax })) {
        count += portion.length - (await settle(db, portion)).length
      }
    } catch (error) {
      // If the database is away again, the next connection repeats them.
      trouble(error, 'repeating settlements that a failover may have lost')
    }
    if (count === 0) return
    log.warn({ settlements: count }, 'Settlements that a failover had lost were repeated')
    signals.emit('wake')
  }
}
