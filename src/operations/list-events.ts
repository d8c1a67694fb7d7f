import type { Database } from '../db/database.ts'
import type { EventStatus } from '../domain/status.ts'
import { type Gathered, type Gathering, gatherMatches, gatherMembers, rowsPerEvent } from './event-gather.ts'
import { checkFilter, type EventFilter, type EventMatch, matchEvents } from './event-match.ts'
import { type MatchSize, sizeMatches } from './event-size.ts'
import { type Members, membersOf } from './event-sources.ts'
import { skipsNothing, stretchOf, within } from './event-sql.ts'
import { countEvents } from './event-total.ts'
import { choosePath, walkEvents } from './event-walk.ts'
import { type ListedEvent, readListed } from './listed-event.ts'
import { type CheckedPaging, checkPaging, encodeCursor, eventIdForm, type Total, totalMax } from './paging.ts'
import { planRows, type Reader, readAtOnce } from './reader.ts'

export type { EventFilter } from './event-match.ts'
export type { ListedEvent } from './listed-event.ts'

export interface EventPage extends Total {
  readonly events: readonly ListedEvent[]
  readonly nextCursor: string | null
}

/** Events in the order of their ids. */
export async function listEvents(db: Database, filter: EventFilter = {}): Promise<EventPage> {
  checkFilter(filter)
  const paging = checkPaging(filter, eventIdForm)
  return readAtOnce(db, async (reader) => {
    const { ids, ...total } = await findEvents(reader, filter, paging)
    const { limit, offset, order } = paging
    const pageIds = ids.slice(offset, offset + limit)
    const last = pageIds.at(-1)
    return {
      events: await readListed(reader, pageIds, order),
      ...total,
      nextCursor: ids.length > offset + limit && last !== undefined ? encodeCursor(order, last) : null,
    }
  })
}

/** If a filter leaves so few events, they are the place to look, whatever their status. */
const fewMatches = 2000
/** Up to here all that match or can have the status are looked at; beyond, they are so many that a walk soon meets some. */
const gatheredMax = 1.2 * totalMax

/** The ids up to the page's end and one more, which tells whether a page follows. */
async function findEvents(
  reader: Reader,
  filter: EventFilter,
  { limit, offset, after: cursor, order }: CheckedPaging,
): Promise<Total & { ids: number[] }> {
  const { status } = filter
  const match = await matchEvents(reader, filter)
  const size = await sizeMatches(reader, match)
  const after = cursor === null ? null : Number(cursor)
  const count = offset + limit + 1
  const gathered = await gatherEvents(reader, { match, order, after, count }, { size, status })
  if (gathered !== null) return { ...gathered, totalIsEstimate: false }

  const path = choosePath(match, size, status)
  const { ids, end } = await walkEvents(reader, {
    ...{ path, order, after, count },
    examinedMax: Number.POSITIVE_INFINITY,
  })
  // A walk from one end to the other has counted them all.
  if (end === 'exhausted' && skipsNothing(match.range, order, after))
    return { ids, total: ids.length, totalIsEstimate: false }
  return { ids, ...(await countEvents(reader, path, size)) }
}

/** Where few events match or can have the status, all are looked at. Null: they are many. */
async function gatherEvents(
  reader: Reader,
  gathering: Gathering,
  { size, status }: { size: MatchSize; status: EventStatus | undefined },
): Promise<Gathered | null> {
  if (status === undefined) {
    return size.many ? null : gatherMatches(reader, gathering, { size, status, max: totalMax })
  }
  const request = { size, status, max: gatheredMax }
  if (size.planned <= fewMatches) {
    const gathered = await gatherMatches(reader, gathering, request)
    if (gathered !== null) return gathered
  }
  const members = membersOf(status)
  if (await mayBeFew(reader, members, gathering.match)) {
    const gathered = await gatherMembers(reader, gathering, { members, status, max: gatheredMax })
    if (gathered !== null) return gathered
  }
  return size.planned > fewMatches && size.planned <= gatheredMax
    ? gatherMatches(reader, gathering, request)
    : null
}

/** The planner may not know that they are many, but if it says so, they were. */
async function mayBeFew(reader: Reader, members: Members, { range }: EventMatch): Promise<boolean> {
  const stretch = stretchOf(range, 'asc', null)
  const text = members.base((column) => within(stretch, column))
  return (await planRows(reader, text, [])) <= rowsPerEvent * gatheredMax
}
