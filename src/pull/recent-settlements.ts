import { portionsOf } from '../core/portions.ts'
import type { Signals } from '../core/signals.ts'
import type { Database } from '../db/database.ts'
import { type SettleRequest, settle } from '../engine/settle.ts'
import type { Logger } from '../observe/log.ts'

/** How far behind an asynchronous standby may be; most leases have ended by then. */
const keptMs = 30_000
const keptMax = 10_000
/** Settlements that one statement repeats. */
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
 * Settlements that workers elsewhere, and callers of `finalize`, were told of lately. A server that takes over after a failover
 * may lack them: there the lease is still in force, and its worker, which is done with it, will never come back for it.
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

  /** The database answers again after a connection was lost: what its server lacks is settled once more. */
  reconnected(): void {
    this.#repeating = this.#repeating.then(() => this.#repeat())
  }

  async stop(): Promise<void> {
    await this.#repeating
  }

  /** What the server has already, or has given to another worker since, is refused by its token. */
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
      // If the database is away once more, the next connection repeats it.
      trouble(error, 'repeating settlements that a failover may have lost')
    }
    if (count === 0) return
    log.warn({ settlements: count }, 'Settlements that a failover had lost were repeated')
    signals.emit('wake')
  }
}
