import type { Database } from '../db/database.ts'
import { type DeliveryStatus, deliveryStatuses } from '../domain/delivery-status.ts'
import type { DeliveryKey } from './delivery-sources.ts'
import { countDeliveries } from './delivery-total.ts'
import { type DeliveryWalk, walkDeliveries } from './delivery-walk.ts'
import { type ListedDelivery, readDeliveries } from './listed-delivery.ts'
import { badOption, checkPaging, checkWhole, encodeCursor, type Paging, type Total } from './paging.ts'
import { type Reader, readAtOnce } from './reader.ts'

export interface DeliveryFilter extends Omit<Paging, 'offset'> {
  readonly eventId?: number
  readonly subscription?: number
  readonly status?: DeliveryStatus
}

export interface DeliveryPage extends Total {
  readonly deliveries: readonly ListedDelivery[]
  /** Also if the page is not full: it looked at as many events as it may. */
  readonly nextCursor: string | null
}

/** What one call looks at; a call after it goes on there. */
const eventsMax = 40_000

/** Deliveries in the order of their events and, of each, of its subscriptions. */
export async function listDeliveries(
  db: Database,
  filter: DeliveryFilter = {},
  bounds: { readonly eventsMax: number } = { eventsMax },
): Promise<DeliveryPage> {
  const walk = { ...checkFilter(filter), ...bounds }
  const { eventId } = filter
  return readAtOnce(db, async (reader) => {
    if (eventId !== undefined) return ofEvent(reader, eventId, walk)
    const { deliveries, next } = await walkDeliveries(reader, walk)
    const isWhole = walk.after === null && next === null
    const total = isWhole
      ? { total: deliveries.length, totalIsEstimate: false }
      : await countDeliveries(reader, walk)
    return { deliveries, ...total, nextCursor: next && cursorAt(walk.order, next) }
  })
}

const keyForm = /^\d{1,16}-\d{1,7}$/

function checkFilter(filter: DeliveryFilter): Omit<DeliveryWalk, 'eventsMax'> {
  const { status, subscription, eventId } = filter
  if (status !== undefined && !deliveryStatuses.includes(status)) {
    throw badOption('status', `one of ${deliveryStatuses.join(', ')}`, status)
  }
  if (subscription !== undefined) checkWhole('subscription', subscription, 0, 2_097_151)
  if (eventId !== undefined) checkWhole('eventId', eventId, 1, Number.MAX_SAFE_INTEGER)
  const { limit, order, after } = checkPaging(filter, keyForm)
  const [lastEvent = 0, lastSubscription = 0] = after?.split('-').map(Number) ?? []
  return { status, subscription, limit, order, after: after === null ? null : [lastEvent, lastSubscription] }
}

function cursorAt(order: 'asc' | 'desc', key: DeliveryKey): string {
  return encodeCursor(order, key.join('-'))
}

/** An event has as many deliveries as subscriptions want it: they are read at once. */
async function ofEvent(reader: Reader, eventId: number, walk: DeliveryWalk): Promise<DeliveryPage> {
  const { status, subscription, limit, order, after } = walk
  const { rows } = await reader.query<{ owed: number[] }>(
    'select e.owed from __schema__.events e where e.id = $1',
    [eventId],
  )
  const owed = (rows[0]?.owed ?? []).filter((no) => subscription === undefined || no === subscription)
  const keys = owed.map((no) => [eventId, no] as const)
  const matching = (await readDeliveries(reader, keys, order)).filter(
    (one) => status === undefined || one.status === status,
  )
  const sign = order === 'asc' ? 1 : -1
  const rest = matching.filter(
    (one) => after === null || sign * (one.eventId - after[0] || one.subscription - after[1]) > 0,
  )
  const deliveries = rest.slice(0, limit)
  const last = deliveries.at(-1)
  const isMore = rest.length > limit && last !== undefined
  return {
    deliveries,
    ...{ total: matching.length, totalIsEstimate: false },
    nextCursor: isMore ? cursorAt(order, [eventId, last.subscription]) : null,
  }
}
