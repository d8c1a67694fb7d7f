import { type CheckedPaging, checkPaging, eventIdForm, type Total, totalMax } from '../core/paging.ts'
import { type Reader, readAtOnce } from '../core/reader.ts'
import type { Database } from '../db/database.ts'
import { type EventStatus, unfinishedStatuses } from '../domain/status.ts'
import { type Gathered, type Gathering, gatherMatches, gatherMembers } from './event-gather.ts'
import { checkFilter, type EventFilter, matchEvents } from './event-match.ts'
import { type MatchSize, sizeMatches } from './event-size.ts'
import { membersOf } from './event-sources.ts'
import { skipsNothing } from './event-sql.ts'
import { countEvents } from './event-total.ts'
import { choosePath, type Walk, type Walked, walkEvents } from './event-walk.ts'
import { type ListedEvent, readListed } from './listed-event.ts'

export type { EventFilter } from './event-match.ts'
export type { ListedEvent } from './listed-event.ts'

export interface EventPage extends Total {
  readonly events: readonly ListedEvent[]
  readonly nextCursor: string | null
}

/** Events in the order of their ids. */
export async function listEvents(db: Database, filter: EventFilter = {}): Promise<EventPage> {
  checkFilter(filter)
  const paging = checkPaging('events', filter, eventIdForm)
  return readAtOnce(db, async (reader) => {
    const { ids, ...total } = await findEvents(reader, filter, paging)
    const { limit, offset, order, cursorAt } = paging
    const pageIds = ids.slice(offset, offset + limit)
    const last = pageIds.at(-1)
    return {
      events: await readListed(reader, pageIds, order),
      ...total,
      nextCursor: ids.length > offset + limit && last !== undefined ? cursorAt(last) : null,
    }
  })
}

export interface UnfinishedPage {
  readonly eventIds: readonly number[]
  readonly nextCursor: string | null
}

/** The ids of events that match and of which something waits or is under way, oldest first. */
export async function listUnfinished(db: Database, filter: EventFilter): Promise<UnfinishedPage> {
  checkFilter(filter)
  const paging = checkPaging('unfinished', { ...filter, order: 'asc' }, eventIdForm)
  const statuses = unfinishedStatuses.filter(
    (status) => filter.status === undefined || filter.status === status,
  )
  return readAtOnce(db, async (reader) => {
    const ids: number[] = []
    for (const status of statuses) {
      const found = await findEvents(reader, { ...filter, status }, paging)
      ids.push(...found.ids)
    }
    const eventIds = ids.sort((a, b) => a - b).slice(0, paging.limit)
    const last = eventIds.at(-1)
    const isMore = ids.length > eventIds.length && last !== undefined
    return { eventIds, nextCursor: isMore ? paging.cursorAt(last) : null }
  })
}

/** If a filter leaves so few events, they are the place to look, whatever their status. */
const fewMatches = 2000
/** Up to here all that match or can have the status are looked at; beyond, they are so many that a walk soon meets some. */
const gatheredMax = 1.2 * totalMax
/** So many members are gathered where a walk would take longer still: that takes some 200 ms. */
const membersMax = 150_000

interface Found extends Total {
  readonly ids: readonly number[]
}

interface Asked {
  readonly size: MatchSize
  readonly status: EventStatus | undefined
}

/** The ids up to the page's end and one more, which tells whether a page follows. */
async function findEvents(
  reader: Reader,
  filter: EventFilter,
  { limit, offset, after: cursor, order }: CheckedPaging,
): Promise<Found> {
  const { status } = filter
  const match = await matchEvents(reader, filter)
  const size = await sizeMatches(reader, match)
  const after = cursor === null ? null : Number(cursor)
  const count = offset + limit + 1
  const gathered = await gatherEvents(reader, { match, order, after, count }, { size, status })
  if (gathered !== null) return { ...gathered, totalIsEstimate: false }

  return walkOrGather(reader, { match, order, after, count }, { size, status })
}

/** A walk that has looked at so many more than it needs may have to look at all. */
const walkedMax = 8192

async function walkOrGather(reader: Reader, gathering: Gathering, { size, status }: Asked): Promise<Found> {
  const { match, order, after, count } = gathering
  const path = choosePath(match, size, status)
  const walk = { path, order, after, count, examinedMax: 4 * count + walkedMax }
  let walked = await walkEvents(reader, walk)
  if (walked.end === 'gave up') {
    if (status !== undefined && path.members === null) {
      const max = Math.min(membersMax, Math.round(size.planned))
      const request = { members: membersOf(status), status, eventsMax: max, rowsMax: max }
      const gathered = await gatherMembers(reader, gathering, request)
      if (gathered !== null) return { ...gathered, totalIsEstimate: false }
    }
    walked = await walkOn(reader, walk, walked)
  }
  const { ids, end } = walked
  // A walk from one end to the other has counted them all.
  if (end === 'exhausted' && skipsNothing(match.range, order, after)) {
    return { ids, total: ids.length, totalIsEstimate: false }
  }
  return { ids, ...(await countEvents(reader, path, size)) }
}

async function walkOn(reader: Reader, walk: Walk, { ids, last }: Walked): Promise<Walked> {
  const rest = await walkEvents(reader, {
    ...{ ...walk, after: last, count: walk.count - ids.length },
    examinedMax: Number.POSITIVE_INFINITY,
  })
  return { ...rest, ids: [...ids, ...rest.ids] }
}

/** Where few events match or can have the status, all are looked at. Null: they are many. */
async function gatherEvents(
  reader: Reader,
  gathering: Gathering,
  { size, status }: Asked,
): Promise<Gathered | null> {
  if (status === undefined) {
    return size.many ? null : gatherMatches(reader, gathering, { size, status, max: totalMax })
  }
  const request = { size, status, max: gatheredMax }
  if (size.planned <= fewMatches) {
    const gathered = await gatherMatches(reader, gathering, request)
    if (gathered !== null) return gathered
  }
  // What is in flight stands in no order, so each step of a walk would read all of it.
  const most =
    status === 'PROCESSING'
      ? { eventsMax: membersMax, rowsMax: membersMax }
      : { eventsMax: gatheredMax, rowsMax: 5 * gatheredMax }
  const gathered = await gatherMembers(reader, gathering, { members: membersOf(status), status, ...most })
  if (gathered !== null) return gathered
  return size.planned > fewMatches && size.planned <= gatheredMax
    ? gatherMatches(reader, gathering, request)
    : null
}
