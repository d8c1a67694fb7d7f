import { type FilterFields, termsOf } from '../core/list-filter.ts'
import { checkTime, type Paging } from '../core/paging.ts'
import { badOption } from '../domain/bad-value.ts'
import { anyOf, compared, type Term } from '../domain/list-terms.ts'
import { integer } from '../domain/subscription.ts'

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

const fields: FilterFields<DeadLetterFilter> = {
  subscription: (no) => {
    if (!Number.isInteger(no)) throw badOption('subscription', "a subscription's number", no)
    return [anyOf('subscriber', [no])]
  },
  eventId: (id) => [anyOf('event', [integer('eventId', id, 1, Number.MAX_SAFE_INTEGER)])],
  eventType: (type) => [anyOf('type', [type])],
  kind: (kind) => {
    if (kind !== 'buried' && kind !== 'expired') throw badOption('kind', 'buried or expired', kind)
    return [anyOf('kind', [kind])]
  },
  since: (since) => [compared('buried', '>=', checkTime('since', since))],
  until: (until) => [compared('buried', '<', checkTime('until', until))],
  includeRedriven: () => [],
}

export function deadLetterTerms(filter: DeadLetterFilter): Term[] {
  return termsOf(filter, fields, 'a list of dead letters')
}
