import { badOption, checkTime, checkWhole, type Paging, pagingOptions } from '../core/paging.ts'
import { type DeliveryStatus, deliveryStatuses } from '../domain/delivery-status.ts'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import { anyOf, compared, type Term } from '../domain/list-terms.ts'

export interface DeliveryFilter extends Paging {
  readonly eventId?: number
  readonly subscription?: number
  readonly status?: DeliveryStatus
  /** Only attempts under way that were picked before: the status is then `delivering`, said or not. */
  readonly pickedBefore?: Date
}

const filterNames: NamesOf<DeliveryFilter> = {
  ...pagingOptions,
  eventId: true,
  subscription: true,
  status: true,
  pickedBefore: true,
}

/** Checks a filter, and says the same in terms. */
export function deliveryTerms(filter: DeliveryFilter): Term[] {
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
  return [
    ...(eventId === undefined ? [] : [anyOf('event', [eventId])]),
    ...(subscription === undefined ? [] : [anyOf('subscriber', [subscription])]),
    ...(status === undefined ? [] : [anyOf('status', [status])]),
    ...(pickedBefore === undefined ? [] : [compared('picked', '<', pickedBefore)]),
  ]
}
