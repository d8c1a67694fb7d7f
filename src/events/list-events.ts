import { readListPage, type SearchedTo, startForm } from '../core/list-page.ts'
import { usualBounds, type WalkBounds, walk } from '../core/list-walk.ts'
import { checkPaging, type Total } from '../core/paging.ts'
import { readAtOnce } from '../core/reader.ts'
import type { Database } from '../db/database.ts'
import { anyOf } from '../domain/list-terms.ts'
import { unfinishedStatuses } from '../domain/status.ts'
import { type EventFilter, eventTerms } from './event-filter.ts'
import { eventList } from './event-list.ts'
import { type ListedEvent, readListed } from './listed-event.ts'

export type { EventFilter } from './event-filter.ts'
export type { ListedEvent } from './listed-event.ts'

export interface EventPage extends Total, SearchedTo {
  readonly events: readonly ListedEvent[]
  readonly nextCursor: string | null
}

export const eventPlace = startForm('\\d{1,16}')

/** Events in the order of their ids. */
export async function listEvents(
  db: Database,
  filter: EventFilter = {},
  bounds?: WalkBounds,
): Promise<EventPage> {
  const terms = eventTerms(filter)
  const paging = checkPaging('events', filter, eventPlace)
  return readAtOnce(db, async (reader) => {
    const list = await eventList(reader, terms, paging)
    const { items, ...page } = await readListPage(reader, list, paging, bounds)
    return { events: await readListed(reader, items, paging.order), ...page }
  })
}

export interface UnfinishedPage {
  readonly eventIds: readonly number[]
  /** Also where the page is short: the call stopped before it had searched everything. */
  readonly nextCursor: string | null
}

/** The ids of events that match and of which something waits or is under way, oldest first. */
export async function listUnfinished(
  db: Database,
  filter: EventFilter,
  bounds: WalkBounds = usualBounds,
): Promise<UnfinishedPage> {
  const terms = eventTerms(filter).filter(({ field }) => field !== 'status')
  const paging = checkPaging('unfinished', { ...filter, order: 'asc' }, eventPlace)
  const { status } = filter
  const statuses = unfinishedStatuses.filter((one) => status === undefined || status === one)
  if (statuses.length === 0) return { eventIds: [], nextCursor: null }
  return readAtOnce(db, async (reader) => {
    const list = await eventList(reader, [...terms, anyOf('status', statuses)], paging)
    const { limit, order, cursorAt } = paging
    const { items, reached } = await walk(reader, list, {
      order,
      after: list.after,
      count: limit + 1,
      bounds,
    })
    const eventIds = items.slice(0, limit)
    const last = items.length > limit ? eventIds.at(-1) : reached
    return { eventIds, nextCursor: last === undefined || last === null ? null : cursorAt(last) }
  })
}
