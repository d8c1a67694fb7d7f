import { type FilterFields, termsOf } from '../core/list-filter.ts'
import { checkOneOf, checkTime, type Paging } from '../core/paging.ts'
import { badOption } from '../domain/bad-value.ts'
import { anyOf, compared, type Term } from '../domain/list-terms.ts'
import { checkPattern } from '../domain/pattern.ts'
import { type EventStatus, eventStatuses } from '../domain/status.ts'
import { checkTagFilter, parseTags } from '../domain/tags.ts'

export interface EventFilter extends Paging {
  readonly status?: EventStatus
  /** Any of these. */
  readonly tags?: readonly string[]
  /** A type, `prefix.*`, or `*` for events that have one. */
  readonly type?: string
  readonly orderingKey?: string
  /** Published at or after. */
  readonly createdFrom?: Date
  /** Published before. */
  readonly createdTo?: Date
}

const fields: FilterFields<EventFilter> = {
  status: (status) => [anyOf('status', [checkOneOf('status', eventStatuses, status)])],
  tags: (tags) => {
    checkTagFilter(tags)
    const asked = parseTags(tags)
    return asked === null ? [] : [anyOf('tag', asked)]
  },
  type: (type) => [anyOf('type', [checkPattern(type)])],
  orderingKey: (key) => {
    if (typeof key !== 'string') throw badOption('orderingKey', 'text', key)
    return [anyOf('key', [key])]
  },
  createdFrom: (from) => [compared('created', '>=', checkTime('createdFrom', from))],
  createdTo: (to) => [compared('created', '<', checkTime('createdTo', to))],
}

export function eventTerms(filter: EventFilter): Term[] {
  return termsOf(filter, fields, 'a list of events')
}
