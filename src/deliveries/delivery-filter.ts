import { type FilterFields, termsOf } from '../core/list-filter.ts'
import { checkOneOf, checkTime, type Paging } from '../core/paging.ts'
import { badOption } from '../domain/bad-value.ts'
import { type DeliveryStatus, deliveryStatuses } from '../domain/delivery-status.ts'
import { anyOf, compared, type Term } from '../domain/list-terms.ts'
import { integer } from '../domain/subscription.ts'

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
export function deliveryTerms(filter: DeliveryFilter): Term[] {
  const terms = termsOf(filter, fields, 'a list of deliveries')
  const { status, pickedBefore } = filter
  if (pickedBefore === undefined || status === 'delivering') return terms
  if (status === undefined) return [...terms, anyOf('status', ['delivering'])]
  throw badOption('status', 'delivering with pickedBefore', status)
}
