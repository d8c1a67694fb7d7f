import { readListPage, type SearchedTo, startForm } from '../core/list-page.ts'
import type { WalkBounds } from '../core/list-walk.ts'
import { checkPaging, type Total } from '../core/paging.ts'
import { readAtOnce } from '../core/reader.ts'
import type { Database } from '../db/database.ts'
import { type DeliveryFilter, deliveryTerms } from './delivery-filter.ts'
import { deliveryList } from './delivery-list.ts'
import { type ListedDelivery, readDeliveries } from './listed-delivery.ts'

export type { DeliveryFilter } from './delivery-filter.ts'

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
