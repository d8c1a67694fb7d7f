import { numberArray } from '../../db/array.ts'
import type { Database } from '../../db/database.ts'
import type { LeasedDelivery, LeasedRun } from '../../domain/delivery.ts'
import type { Served } from '../../subscriptions/served.ts'
import type { LanePlace } from './webhook-request.ts'
import * as statements from './webhook-statements.ts'

/** What a webhook says besides its event: its place in a lane, and the replay that asked for it. Forgotten with the lease. */
export class WebhookNotes {
  readonly #db: Database
  readonly #served: Pick<Served, 'get'>
  readonly #replays = new WeakMap<LeasedDelivery, string>()
  readonly #numbers = new WeakMap<LeasedDelivery, LanePlace>()
  /** The last number that was delivered under the present lease. */
  readonly #delivered = new WeakMap<LeasedRun, LanePlace>()

  constructor(db: Database, served: Pick<Served, 'get'>) {
    this.#db = db
    this.#served = served
  }

  /** Reads what must be known of leased runs before their first attempt; the runs are of one lease. */
  async read(runs: readonly LeasedRun[]): Promise<void> {
    const webhooks = runs.filter(({ subscription }) => this.#served.get(subscription)?.via === 'webhook')
    if (webhooks.length === 0) return
    await Promise.all([this.#readReplays(webhooks), this.#number(webhooks)])
  }

  /** The replay that asked for the delivery; null: none did. */
  replayOf(delivery: LeasedDelivery): string | null {
    return this.#replays.get(delivery) ?? null
  }

  /** Null: the delivery is in no lane. */
  laneOf(delivery: LeasedDelivery): LanePlace | null {
    const number = this.#numbers.get(delivery)
    if (number === undefined) return null
    const last = this.#delivered.get(delivery.run)
    return { ...number, delivered: last?.epoch === number.epoch ? last.sequence : number.delivered }
  }

  /** The deliveries behind it in its lane are told that it went before them. */
  delivered(delivery: LeasedDelivery): void {
    const number = this.#numbers.get(delivery)
    if (number !== undefined && !number.isLate) this.#delivered.set(delivery.run, number)
  }

  async #readReplays(runs: readonly LeasedRun[]): Promise<void> {
    const deliveries = runs.flatMap((run) => run.deliveries)
    const rows = await this.#db.run<[place: number, replay: string]>(statements.findReplayed(this.#db), [
      numberArray(deliveries.map(({ event }) => event.id)),
      numberArray(deliveries.map(({ run }) => run.subscription)),
    ])
    for (const [place, replay] of rows) this.#replays.set(deliveries[place - 1] as LeasedDelivery, replay)
  }

  /**
   * Numbers the deliveries that a lease has granted from lanes, in their order. A delivery keeps its number. A crash of the
   * database may lose numbers only of deliveries that were not settled since, and these come again in the same order.
   */
  async #number(runs: readonly LeasedRun[]): Promise<void> {
    const lanes = new Map(runs.filter(({ laneKey }) => laneKey !== null).map((run) => [run.id, run]))
    const [first] = lanes.values()
    if (first === undefined) return
    const values = [numberArray([...lanes.keys()]), first.token]
    const options = { indexPlans: true, durable: false }
    const rows = await this.#db.once<NumberRow>(statements.numberLanes(this.#db), values, options)
    for (const [runId, eventId, orderingKey, epoch, sequence, delivered, isLate] of rows) {
      const delivery = lanes.get(runId)?.deliveries.find(({ event }) => event.id === eventId)
      if (delivery === undefined) continue
      this.#numbers.set(delivery, { orderingKey, epoch, sequence, delivered, isLate })
    }
  }
}

type NumberRow = [
  runId: number,
  eventId: number,
  orderingKey: string,
  epoch: number,
  sequence: number,
  delivered: number,
  isLate: boolean,
]
