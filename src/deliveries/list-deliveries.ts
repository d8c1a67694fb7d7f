import { type FilterFields, termsOf } from '../core/list-filter.ts'
import { readListPage, type SearchedTo, startForm } from '../core/list-page.ts'
import type { WalkBounds } from '../core/list-walk.ts'
import { checkOneOf, checkPaging, checkTime, type Paging, type Total } from '../core/paging.ts'
import { readAtOnce } from '../core/reader.ts'
import type { Database } from '../db/database.ts'
import { badOption } from '../domain/bad-value.ts'
import { type DeliveryStatus, deliveryStatuses } from '../domain/delivery-status.ts'
import { anyOf, compared, type Term } from '../domain/list-terms.ts'
import { integer } from '../domain/subscription.ts'
import { deliveryList } from './delivery-list.ts'
import { type ListedDelivery, readDeliveries } from './listed-delivery.ts'

export interface DeliveryFilter extends Paging {
  readonly eventId?: number
  readonly subscription?: number
  readonly status?: DeliveryStatus
  /** Only attempts under way that were picked before: the status is then `delivering`, said or not. */
  readonly pickedBefore?: Date
}

const fields: FilterFields<DeliveryFilter> = {
  eventId: (id) => [anyOf('event', [integer('eventId', id, 1, Number.MAX_SAFE_INTEGER)])],
  subscription: (no) => [anyOf('subscriber', [integer('subscription', no, 0, 2_097_151)])],
  status: (status) => [anyOf('status', [checkOneOf('status', deliveryStatuses, status)])],
  pickedBefore: (picked) => [compared('picked', '<', checkTime('pickedBefore', picked))],
}

/** Checks a filter, and says the same in terms. */
function deliveryTerms(filter: DeliveryFilter): Term[] {
  const terms = termsOf(filter, fields, 'a list of deliveries')
  const { status, pickedBefore } = filter
  if (pickedBefore === undefined || status === 'delivering') return terms
  if (status === undefined) return [...terms, anyOf('status', ['delivering'])]
  throw badOption('status', 'delivering with pickedBefore', status)
}

export interface DeliveryPage extends Total, SearchedTo {
  readonly deliveries: readonly ListedDelivery[]
  /** Also where the page is not full: the call stopped before it had searched everything. */
  readonly nextCursor: string | null
}

const deliveryPlace = startForm('\\d{1,16}(-\\d{1,7})?')

/** Deliveries in the order of their events and, of each, of its subscriptions. */
export async function listDeliveries(
  db: Database,
  filter: DeliveryFilter = {},
  bounds?: WalkBounds,
): Promise<DeliveryPage> {
  const terms = deliveryTerms(filter)
  const paging = checkPaging('deliveries', filter, deliveryPlace)
  return readAtOnce(db, async (reader) => {
    const list = await deliveryList(reader, terms, paging)
    const { items, ...page } = await readListPage(reader, list, paging, bounds)
    return { deliveries: await readDeliveries(reader, items, paging.order), ...page }
  })
}
