import type { Order } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import type { DeliveryStatus } from '../domain/delivery-status.ts'
import { idsFrom } from '../events/event-sql.ts'
import { type DeliveryKey, type DeliverySource, type SourceRequest, sourceOf } from './delivery-sources.ts'
import { type ListedDelivery, readDeliveries } from './listed-delivery.ts'

export interface DeliveryWalk {
  readonly status: DeliveryStatus | undefined
  readonly subscription: number | undefined
  /** Only with the status `delivering`. */
  readonly pickedBefore?: Date | undefined
  readonly limit: number
  readonly order: Order
  readonly after: DeliveryKey | null
  /** How far one call goes along the events in search of one subscription's. */
  readonly eventsMax: number
}

export interface WalkedDeliveries {
  readonly deliveries: readonly ListedDelivery[]
  /** Where it goes on; null: nothing is left. */
  readonly next: DeliveryKey | null
}

/** Until the page is full and one more is found, which tells whether another follows. */
export async function walkDeliveries(reader: Reader, walk: DeliveryWalk): Promise<WalkedDeliveries> {
  const { status, subscription, pickedBefore, limit, order } = walk
  const source = sourceOf(status)
  const stretches =
    source.isAlongEvents && subscription !== undefined ? new Stretches(reader, walk) : undefined
  const found: ListedDelivery[] = []
  let { after } = walk
  for (;;) {
    const range = stretches === undefined ? null : await stretches.next()
    if (range === 'none') return { deliveries: found, next: null }
    if (range === 'enough')
      return { deliveries: found, next: (stretches as Stretches).end(subscription ?? 0) }
    for (;;) {
      const request = { subscription, order, after, range, pickedBefore }
      const keys = await nextKeys(reader, source, request, limit + 1)
      const read = await readDeliveries(reader, keys, order)
      found.push(...read.filter((one) => status === undefined || one.status === status))
      if (found.length > limit) return cut(found, limit)
      after = keys.at(-1) ?? after
      // What the source still names and has left it makes room for others.
      if (keys.length <= limit) break
    }
    if (range === null) return { deliveries: found, next: null }
  }
}

function cut(found: readonly ListedDelivery[], limit: number): WalkedDeliveries {
  const deliveries = found.slice(0, limit)
  const { eventId, subscription } = deliveries.at(-1) as ListedDelivery
  return { deliveries, next: [eventId, subscription] }
}

/** The first of a source. */
export async function nextKeys(
  reader: Reader,
  source: DeliverySource,
  request: SourceRequest,
  count: number,
): Promise<DeliveryKey[]> {
  const { order } = request
  const { rows } = await reader.query<{ events: string; subscriptions: string }>(
    `select coalesce(array_agg(v.event_id), '{}')::text as events,
      coalesce(array_agg(v.subscription), '{}')::text as subscriptions
    from (
      select v.event_id, v.subscription
      from (${source.query(request)}) as v
      order by v.event_id ${order}, v.subscription ${order}
      limit ${count}
    ) as v`,
  )
  const { events, subscriptions } = rows[0] as (typeof rows)[number]
  const numbers = idsFrom(subscriptions)
  return idsFrom(events).map((eventId, at) => [eventId, numbers[at] as number])
}

const stretchMin = 1024
const stretchMax = 32_768

/** Above every subscription's number. */
const noMax = 2 ** 21

/** Ids side by side, stretch after growing stretch, over gaps where the source has nothing. */
class Stretches {
  readonly #reader: Reader
  readonly #walk: DeliveryWalk
  /** The last id that was part of a stretch. */
  #reached: number | null
  #looked = 0
  #size = stretchMin

  constructor(reader: Reader, walk: DeliveryWalk) {
    this.#reader = reader
    this.#walk = walk
    this.#reached = walk.after === null ? null : walk.after[0]
    // A page may have ended between two deliveries of one event.
    if (this.#reached !== null) this.#reached += walk.order === 'asc' ? -1 : 1
  }

  async next(): Promise<readonly [first: number, last: number] | 'none' | 'enough'> {
    const isUp = this.#walk.order === 'asc'
    const start = await this.#nextId()
    if (start === null) return 'none'
    if (this.#looked >= this.#walk.eventsMax) return 'enough'
    const size = Math.min(this.#size, Math.max(1, this.#walk.eventsMax - this.#looked))
    this.#size = Math.min(this.#size * 4, stretchMax)
    this.#looked += size
    this.#reached = isUp ? start + size - 1 : start - size + 1
    return isUp ? [start, this.#reached] : [this.#reached, start]
  }

  /** All up to here was looked at. */
  end(subscription: number): DeliveryKey {
    return [Math.max(0, this.#reached ?? 0), subscription]
  }

  /** Whosever it is: an index leads there. */
  async #nextId(): Promise<number | null> {
    const { order, status } = this.#walk
    const after = this.#reached === null ? null : ([this.#reached, order === 'asc' ? noMax : -1] as const)
    const request = { subscription: undefined, order, after, range: null }
    const [key] = await nextKeys(this.#reader, sourceOf(status), request, 1)
    return key === undefined ? null : key[0]
  }
}
