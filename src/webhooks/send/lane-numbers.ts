import { numberArray } from '../../db/array.ts'
import type { Database } from '../../db/database.ts'
import type { LeasedDelivery, LeasedRun } from '../../domain/delivery.ts'
import type { LanePlace } from './webhook-request.ts'
import * as statements from './webhook-statements.ts'

/** A delivery's place in its lane, which a receiver can check. */
export interface LaneNumber extends LanePlace {
  readonly runId: number
  readonly eventId: number
}

/**
 * Numbers the deliveries that a lease has granted from lanes, in their order. A delivery keeps its number. A crash of the
 * database may lose numbers only of deliveries that were not settled since, and these come again in the same order.
 */
export async function numberLanes(
  db: Database,
  { runIds, token }: { runIds: readonly number[]; token: number },
): Promise<LaneNumber[]> {
  const rows = await db.once<NumberRow>(statements.numberLanes(db), [numberArray(runIds), token], {
    indexPlans: true,
    durable: false,
  })
  return rows.map(([runId, eventId, orderingKey, epoch, sequence, delivered, isLate]) => ({
    runId,
    eventId,
    orderingKey,
    epoch,
    sequence,
    delivered,
    isLate,
  }))
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

/** The places of leased deliveries in their lanes. They are forgotten with the leases. */
export class LanePlaces {
  readonly #db: Database
  readonly #numbers = new WeakMap<LeasedDelivery, LaneNumber>()
  /** The last number that was delivered under the present lease. */
  readonly #delivered = new WeakMap<LeasedRun, LaneNumber>()

  constructor(db: Database) {
    this.#db = db
  }

  /** Numbers the deliveries of lanes; the runs are of one lease. */
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

  /** Null: the delivery is in no lane. */
  of(delivery: LeasedDelivery): LanePlace | null {
    const number = this.#numbers.get(delivery)
    if (number === undefined) return null
    const last = this.#delivered.get(delivery.run)
    return { ...number, delivered: last?.epoch === number.epoch ? last.sequence : number.delivered }
  }

  /** The deliveries behind it are told that it went before them. */
  delivered(delivery: LeasedDelivery): void {
    const number = this.#numbers.get(delivery)
    if (number !== undefined && !number.isLate) this.#delivered.set(delivery.run, number)
  }
}
