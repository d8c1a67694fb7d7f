import { numberArray } from '../../db/array.ts'
import type { Database } from '../../db/database.ts'
import type { LeasedDelivery, LeasedRun } from '../../domain/delivery.ts'
import type { Served } from '../../subscriptions/served.ts'
import { LanePlaces } from './lane-numbers.ts'
import { findReplayed } from './webhook-statements.ts'

/** What a webhook says besides its event: its place in a lane, and the replay that asked for it. Read once per lease. */
export class WebhookNotes {
  readonly lanes: LanePlaces
  readonly #db: Database
  readonly #served: Pick<Served, 'get'>
  readonly #replays = new WeakMap<LeasedRun, Map<number, string>>()

  constructor(db: Database, served: Pick<Served, 'get'>) {
    this.#db = db
    this.#served = served
    this.lanes = new LanePlaces(db)
  }

  /** Reads what must be known of leased runs before their first attempt; the runs are of one lease. */
  async read(runs: readonly LeasedRun[]): Promise<void> {
    const webhooks = runs.filter(({ subscription }) => this.#served.get(subscription)?.via === 'webhook')
    if (webhooks.length === 0) return
    await Promise.all([this.#readReplays(webhooks), this.lanes.number(webhooks)])
  }

  /** The replay that asked for the delivery; null: none did. */
  replayOf({ run, event }: LeasedDelivery): string | null {
    return this.#replays.get(run)?.get(event.id) ?? null
  }

  async #readReplays(runs: readonly LeasedRun[]): Promise<void> {
    const deliveries = runs.flatMap((run) => run.deliveries.map(({ event }) => ({ run, eventId: event.id })))
    const rows = await this.#db.run<[place: number, replay: string]>(findReplayed(this.#db), [
      numberArray(deliveries.map(({ eventId }) => eventId)),
      numberArray(deliveries.map(({ run }) => run.subscription)),
    ])
    for (const [place, replay] of rows) {
      const { run, eventId } = deliveries[place - 1] as (typeof deliveries)[number]
      const replays = this.#replays.get(run) ?? new Map<number, string>()
      this.#replays.set(run, replays.set(eventId, replay))
    }
  }
}
