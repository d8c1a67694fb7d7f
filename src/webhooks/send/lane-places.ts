import type { Database } from '../../db/database.ts'
import type { LeasedDelivery, LeasedRun } from '../../domain/delivery.ts'
import { type LaneNumber, numberLanes } from './lane-numbers.ts'
import type { LanePlace } from './webhook-request.ts'

/** The places of leased deliveries in their lanes, for the receiver to check. They are forgotten with the leases. */
export class LanePlaces {
  readonly #db: Database
  readonly #numbers = new WeakMap<LeasedDelivery, LaneNumber>()
  /** The last one that was delivered under this very lease. */
  readonly #delivered = new WeakMap<LeasedRun, { readonly epoch: number; readonly sequence: number }>()

  constructor(db: Database) {
    this.#db = db
  }

  /** Numbers what was leased of lanes; the runs are of one lease. */
  async number(runs: readonly LeasedRun[]): Promise<void> {
    const lanes = new Map(runs.filter(({ laneKey }) => laneKey !== null).map((run) => [run.id, run]))
    const [first] = lanes.values()
    if (first === undefined) return
    const numbers = await numberLanes(this.#db, { runIds: [...lanes.keys()], token: first.token })
    for (const number of numbers) {
      const delivery = lanes.get(number.runId)?.deliveries.find(({ event }) => event.id === number.eventId)
      if (delivery !== undefined) this.#numbers.set(delivery, number)
    }
  }

  /** Null: it is in no lane. */
  of(delivery: LeasedDelivery): LanePlace | null {
    const number = this.#numbers.get(delivery)
    if (number === undefined) return null
    const { orderingKey, epoch, sequence, delivered, isLate } = number
    const last = this.#delivered.get(delivery.run)
    return {
      orderingKey,
      epoch,
      sequence,
      isLate,
      delivered: last?.epoch === epoch ? last.sequence : delivered,
    }
  }

  /** Those behind it learn that it went before them. */
  delivered(delivery: LeasedDelivery): void {
    const number = this.#numbers.get(delivery)
    if (number !== undefined && !number.isLate) this.#delivered.set(delivery.run, number)
  }
}
