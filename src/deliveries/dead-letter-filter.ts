import { badOption, checkTime, checkWhole, type Paging, pagingOptions } from '../core/paging.ts'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import { anyOf, compared, type Term } from '../domain/list-terms.ts'

export type DeadLetterKind = 'buried' | 'expired'

export interface DeadLetterFilter extends Paging {
  readonly subscription?: number
  readonly eventId?: number
  /** Of events that are still stored. */
  readonly eventType?: string
  readonly kind?: DeadLetterKind
  /** Buried at or after. */
  readonly since?: Date
  /** Buried before. */
  readonly until?: Date
  /** `true` shows those as well that were redriven since. */
  readonly includeRedriven?: boolean
}

const filterNames: NamesOf<DeadLetterFilter> = {
  ...pagingOptions,
  subscription: true,
  eventId: true,
  eventType: true,
  kind: true,
  since: true,
  until: true,
  includeRedriven: true,
}

/** Checks a filter, and says the same in terms. */
export function deadLetterTerms(filter: DeadLetterFilter): Term[] {
  checkOptions(filter, filterNames, 'a list of dead letters')
  const { kind, subscription, eventId, eventType, since, until } = filter
  if (kind !== undefined && kind !== 'buried' && kind !== 'expired') {
    throw badOption('kind', 'buried or expired', kind)
  }
  if (subscription !== undefined && !Number.isInteger(subscription)) {
    throw badOption('subscription', "a subscription's number", subscription)
  }
  if (eventId !== undefined) checkWhole('eventId', eventId, 1, Number.MAX_SAFE_INTEGER)
  checkTime('since', since)
  checkTime('until', until)
  return [
    ...(subscription === undefined ? [] : [anyOf('subscriber', [subscription])]),
    ...(eventId === undefined ? [] : [anyOf('event', [eventId])]),
    ...(eventType === undefined ? [] : [anyOf('type', [eventType])]),
    ...(kind === undefined ? [] : [anyOf('kind', [kind])]),
    ...(since === undefined ? [] : [compared('buried', '>=', since)]),
    ...(until === undefined ? [] : [compared('buried', '<', until)]),
  ]
}
