import type { Database } from '../db/database.ts'
import { checkOptions } from '../domain/known-names.ts'
import { toReason } from '../domain/text.ts'
import type { Admitter } from '../engine/admit.ts'
import { PosthornError } from '../errors.ts'
import type { Burial } from '../observe/hub-events.ts'
import { getDeadLetter, openLetter } from './dead-letters.ts'
import { type DeliveryDetails, findDelivery, getDelivery } from './get-delivery.ts'
import { type DeliveryFilter, type DeliveryPage, listDeliveries } from './list-deliveries.ts'
import { readDeliveries } from './listed-delivery.ts'
import { type BuryRequest, buryWaiting, type DeliveryRequest, redrive, retryWaiting } from './repair.ts'
import { findSubscriberStatement } from './repair-statements.ts'

export interface DeliveriesParts {
  readonly db: Database
  readonly admitter: Admitter
  readonly buried: (burial: Burial) => void
}

/** What operators see of single deliveries, and do to them. */
export class Deliveries {
  readonly #parts: DeliveriesParts

  constructor(parts: DeliveriesParts) {
    this.#parts = parts
  }

  list(filter?: DeliveryFilter): Promise<DeliveryPage> {
    return listDeliveries(this.#parts.db, filter)
  }

  /** The number of a subscription by its id or name, ended ones included. Throws NOT_FOUND. */
  async subscriber(which: string): Promise<number> {
    const { db } = this.#parts
    const [row] = await db.run<[no: number]>(findSubscriberStatement(db), [which])
    if (row === undefined) throw new PosthornError('NOT_FOUND', { what: 'subscriber', id: which })
    return row[0]
  }

  /** A delivery with every attempt; undefined if there is none. */
  get(id: string): Promise<DeliveryDetails | undefined> {
    return getDelivery(this.#parts.db, id)
  }

  /** Makes a waiting retry due now, or gives a buried delivery a fresh budget of attempts. Throws NOT_RETRYABLE. */
  async retry(id: string, by = 'library'): Promise<void> {
    const { db } = this.#parts
    const found = await this.#find(id)
    const letter = await openLetter(db, found)
    if (letter !== undefined && (await redrive(db, { deadLetterIds: [letter], by })).length > 0) return
    if (await retryWaiting(db, { ...found, by })) return
    const reason = await this.#whyNot(found)
    throw new PosthornError('NOT_RETRYABLE', { what: 'delivery', id, reason })
  }

  /** Makes a dead letter of a waiting delivery. Throws NOT_WAITING. */
  async bury(id: string, options: { readonly reason?: string | undefined; readonly by?: string } = {}) {
    checkOptions(options, { by: true, reason: true }, 'bury')
    const { by = 'library', reason = `buried by ${by}` } = options
    const found = await this.#find(id)
    if (await this.buryFound({ ...found, reason, lane: 'as usual' })) return
    const status = await this.#statusOf(found)
    // A delivery that a worker has leased and not begun shows as waiting, but cannot be buried.
    const isOwned = status === 'pending' || status === 'failed'
    throw new PosthornError('NOT_WAITING', { id, deliveryStatus: isOwned ? 'leased' : status })
  }

  /** The same by event and subscription; false: the delivery does not wait. */
  async buryFound(request: BuryRequest): Promise<boolean> {
    const { db, admitter, buried: tell } = this.#parts
    const { eventId } = request
    const reason = toReason(request.reason)
    const buried = await buryWaiting(db, admitter, { ...request, reason })
    if (buried === undefined) return false
    const { name: subscription, type, stopsLane } = buried
    tell({ subscription, eventId, type, reason, stopsLane })
    return true
  }

  async #find(id: string): Promise<DeliveryRequest> {
    const found = await findDelivery(this.#parts.db, id)
    if (found === undefined) throw new PosthornError('NOT_FOUND', { what: 'delivery', id })
    return found
  }

  async #whyNot(found: DeliveryRequest): Promise<string> {
    const letter = await openLetter(this.#parts.db, found)
    if (letter !== undefined) {
      const { purgedAt } = (await getDeadLetter(this.#parts.db, letter)) ?? { purgedAt: null }
      return purgedAt === null ? 'its subscription has ended' : 'its event was purged'
    }
    const status = await this.#statusOf(found)
    return status === 'pending' ? 'it is pending, and was not tried yet' : `it is ${status} now`
  }

  async #statusOf({ eventId, subscription }: DeliveryRequest): Promise<string> {
    const [delivery] = await readDeliveries(this.#parts.db, [[eventId, subscription]], 'asc')
    return delivery?.status ?? 'gone'
  }
}
