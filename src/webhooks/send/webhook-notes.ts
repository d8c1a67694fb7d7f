import type { Database } from '../../db/database.ts'
import type { LeasedDelivery, LeasedRun } from '../../domain/delivery.ts'
import type { Served } from '../../subscriptions/served.ts'
import { LanePlaces } from './lane-places.ts'
import { findReplayed } from './replayed.ts'

/** What webhooks say besides their events: places in lanes, and which replay asked for them. Read once per lease. */
export class WebhookNotes {
  readonly lanes: LanePlaces
  readonly #db: Database
  readonly #served: Pick<Served, 'get'>
  readonly #replays = new WeakMap<LeasedRun, ReadonlyMap<number, string>>()

  constructor(db: Database, served: Pick<Served, 'get'>) {
    this.#db = db
    this.#served = served
    this.lanes = new LanePlaces(db)
  }

  /** Reads what must be known of leased runs before their first attempt; the runs are of one lease. */
  async read(runs: readonly LeasedRun[]): Promise<void> {
    const webhooks = runs.filter(({ subscription }) => this.#served.get(subscription)?.via === 'webhook')
    if (webhooks.length === 0) return
    const [replayed] = await Promise.all([findReplayed(this.#db, webhooks), this.lanes.number(webhooks)])
    for (const [run, replays] of replayed) this.#replays.set(run, replays)
  }

  /** Which replay asked for the delivery; null: none did. */
  replayOf({ run, event }: LeasedDelivery): string | null {
    return this.#replays.get(run)?.get(event.id) ?? null
  }
}
