import type { Database } from '../db/database.ts'
import type { Admitter } from '../operations/admit.ts'
import { cancel } from '../operations/cancel.ts'
import { type Expired, expire } from '../operations/expire.ts'
import { peek } from '../operations/peek.ts'
import { pruneIdempotencyKeys } from '../operations/prune.ts'
import { type Reclaimed, reclaim } from '../operations/reclaim.ts'
import { abandonedSubscriptions, orphanedDeliveries } from '../operations/subscriptions.ts'
import { Loop } from './loop.ts'

export interface UpkeepObserver {
  reclaimed(runs: number, charged: readonly Reclaimed[]): void
  expired(deliveries: readonly Expired[]): void
  abandoned(subscriptions: readonly string[]): void
  trouble(error: unknown, doing: string): void
}

/** What must happen whether or not anybody works: every process may do it, each step is guarded in SQL. */
export class Upkeep {
  readonly #db: Database
  readonly #admitter: Admitter
  readonly #observe: UpkeepObserver
  readonly #loops: readonly Loop[]

  constructor(db: Database, admitter: Admitter, observe: UpkeepObserver) {
    this.#db = db
    this.#admitter = admitter
    this.#observe = observe
    const loop = (name: string, everyMs: number, step: () => Promise<boolean>) =>
      new Loop({ name, everyMs, step, trouble: (error, doing) => observe.trouble(error, doing) })
    this.#loops = [
      loop('taking back what is overdue', 2_000, () => this.sweep()),
      loop('cancelling what is owed to nobody', 10_000, () => this.#cancelOrphans()),
      loop('looking for handlers that are missing', 60_000, () => this.#findAbandoned()),
      loop('forgetting old idempotency keys', 600_000, () => pruneIdempotencyKeys(db)),
    ]
  }

  start(): void {
    for (const loop of this.#loops) loop.start()
  }

  async stop(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.stop()))
  }

  /** Reclaims ended leases and ends what has outlived its time; true while there is more. */
  async sweep(): Promise<boolean> {
    const { work, overdue } = await peek(this.#db, [])
    // Also where nobody works: what stands at the door can expire too.
    const moved = work ? (await this.#admitter.admit()).moved : 0
    if (!overdue) return moved > 0
    const { runs, charged } = await reclaim(this.#db)
    if (runs > 0) this.#observe.reclaimed(runs, charged)
    const expired = await expire(this.#db)
    if (expired.length > 0) this.#observe.expired(expired)
    return runs > 0 || expired.length > 0
  }

  async #cancelOrphans(): Promise<boolean> {
    const orphans = await orphanedDeliveries(this.#db)
    if (orphans === undefined) return false
    const cancelled = await cancel(this.#db, { ...orphans, reason: 'the subscription was deleted' })
    return cancelled.length > 0
  }

  async #findAbandoned(): Promise<boolean> {
    const names = await abandonedSubscriptions(this.#db)
    if (names.length > 0) this.#observe.abandoned(names)
    return false
  }
}
