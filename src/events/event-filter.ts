import { badOption, checkTime, type Paging, pagingOptions } from '../core/paging.ts'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
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

const filterNames: NamesOf<EventFilter> = {
  ...pagingOptions,
  status: true,
  tags: true,
  type: true,
  orderingKey: true,
  createdFrom: true,
  createdTo: true,
}

/** Checks a filter, and says the same in terms. */
export function eventTerms(filter: EventFilter): Term[] {
  checkOptions(filter, filterNames, 'a list of events')
  const { status, tags, type, orderingKey, createdFrom, createdTo } = filter
  if (status !== undefined && !eventStatuses.includes(status)) {
    throw badOption('status', `one of ${eventStatuses.join(', ')}`, status)
  }
  if (tags !== undefined) checkTagFilter(tags)
  if (type !== undefined) checkPattern(type)
  if (orderingKey !== undefined && typeof orderingKey !== 'string') {
    throw badOption('orderingKey', 'text', orderingKey)
  }
  checkTime('createdFrom', createdFrom)
  checkTime('createdTo', createdTo)
  const tagsAsked = tags === undefined ? null : parseTags(tags)
  return [
    ...(status === undefined ? [] : [anyOf('status', [status])]),
    ...(tagsAsked === null ? [] : [anyOf('tag', tagsAsked)]),
    ...(type === undefined ? [] : [anyOf('type', [type])]),
    ...(orderingKey === undefined ? [] : [anyOf('key', [orderingKey])]),
    ...(createdFrom === undefined ? [] : [compared('created', '>=', createdFrom)]),
    ...(createdTo === undefined ? [] : [compared('created', '<', createdTo)]),
  ]
}
