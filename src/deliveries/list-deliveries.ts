import {
  badOption,
  type CheckedPaging,
  checkPaging,
  checkTime,
  checkWhole,
  limitMax,
  offsetMax,
  type Paging,
  pagingOptions,
  type Total,
} from '../core/paging.ts'
import { type Reader, readAtOnce } from '../core/reader.ts'
import type { Database } from '../db/database.ts'
import { type DeliveryStatus, deliveryStatuses } from '../domain/delivery-status.ts'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import type { DeliveryKey } from './delivery-sources.ts'
import { countDeliveries } from './delivery-total.ts'
import { type DeliveryWalk, type WalkedDeliveries, walkDeliveries } from './delivery-walk.ts'
import { type ListedDelivery, readDeliveries } from './listed-delivery.ts'

export interface DeliveryFilter extends Paging {
  readonly eventId?: number
  readonly subscription?: number
  readonly status?: DeliveryStatus
  /** Only attempts under way that were picked before: the status is then `delivering`, said or not. */
  readonly pickedBefore?: Date
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
    const { deliveries, next, skipped } = await skipAndWalk(reader, walk)
    const isWhole = walk.after === null && next === null
    const total = isWhole
      ? { total: skipped + deliveries.length, totalIsEstimate: false }
      : await countDeliveries(reader, walk)
    const nextCursor = next && walk.cursorAt(idOf(next, walk.skip - skipped))
    return { deliveries, ...total, nextCursor }
  })
}

interface SkippingWalk extends DeliveryWalk {
  /** Those that match and are left out before the page begins. */
  readonly skip: number
  readonly cursorAt: CheckedPaging['cursorAt']
}

/** What is left out is walked like any page. If that ends early, it looked at as many events as it may. */
async function skipAndWalk(
  reader: Reader,
  { skip, ...walk }: SkippingWalk,
): Promise<WalkedDeliveries & { readonly skipped: number }> {
  let { after } = walk
  let skipped = 0
  while (skipped < skip) {
    const limit = Math.min(limitMax, skip - skipped)
    const { deliveries, next } = await walkDeliveries(reader, { ...walk, after, limit })
    skipped += deliveries.length
    if (next === null || deliveries.length < limit) return { deliveries: [], next, skipped }
    after = next
  }
  return { ...(await walkDeliveries(reader, { ...walk, after })), skipped }
}

/** Where a page ended and, if it found less than was to be skipped, how many are still to be. */
const keyForm = /^\d{1,16}-\d{1,7}(-\d{1,5})?$/

const filterNames: NamesOf<DeliveryFilter> = {
  ...pagingOptions,
  ...{ eventId: true, subscription: true, status: true, pickedBefore: true },
}

function checkFilter(filter: DeliveryFilter): Omit<SkippingWalk, 'eventsMax'> {
  checkOptions(filter, filterNames, 'a list of deliveries')
  const { subscription, eventId, pickedBefore } = filter
  const { status = pickedBefore && 'delivering' } = filter
  if (status !== undefined && !deliveryStatuses.includes(status)) {
    throw badOption('status', `one of ${deliveryStatuses.join(', ')}`, status)
  }
  checkTime('pickedBefore', pickedBefore)
  if (pickedBefore !== undefined && status !== 'delivering') {
    throw badOption('status', 'delivering with pickedBefore', status)
  }
  if (subscription !== undefined) checkWhole('subscription', subscription, 0, 2_097_151)
  if (eventId !== undefined) checkWhole('eventId', eventId, 1, Number.MAX_SAFE_INTEGER)
  const { limit, order, after, offset, cursorAt } = checkPaging('deliveries', filter, keyForm)
  const asked = { status, subscription, pickedBefore, limit, order, cursorAt }
  if (after === null) return { ...asked, after, skip: offset }
  const [lastEvent = 0, lastSubscription = 0, skip = 0] = after.split('-').map(Number)
  return { ...asked, after: [lastEvent, lastSubscription], skip: Math.min(skip, offsetMax) }
}

function idOf(key: DeliveryKey, skip: number): string {
  return (skip === 0 ? key : [...key, skip]).join('-')
}

/** An event has as many deliveries as subscriptions want it: they are read at once. */
async function ofEvent(reader: Reader, eventId: number, walk: SkippingWalk): Promise<DeliveryPage> {
  const { status, subscription, pickedBefore, limit, order, after, skip } = walk
  const { rows } = await reader.query<{ owed: number[] }>(
    'select e.owed from __schema__.events e where e.id = $1',
    [eventId],
  )
  const owed = (rows[0]?.owed ?? []).filter((no) => subscription === undefined || no === subscription)
  const keys = owed.map((no) => [eventId, no] as const)
  const matching = (await readDeliveries(reader, keys, order)).filter(
    (one) =>
      (status === undefined || one.status === status) &&
      (pickedBefore === undefined || (one.leasedAt !== null && one.leasedAt < pickedBefore)),
  )
  const sign = order === 'asc' ? 1 : -1
  const rest = matching.filter(
    (one) => after === null || sign * (one.eventId - after[0] || one.subscription - after[1]) > 0,
  )
  const deliveries = rest.slice(skip, skip + limit)
  const last = deliveries.at(-1)
  const isMore = rest.length > skip + limit && last !== undefined
  return {
    deliveries,
    ...{ total: matching.length, totalIsEstimate: false },
    nextCursor: isMore ? walk.cursorAt(idOf([eventId, last.subscription], 0)) : null,
  }
}
