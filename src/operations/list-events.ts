import { numberArray } from '../db/array.ts'
import { type Database, defineStatement } from '../db/database.ts'
import type { EventSource as Origin } from '../domain/event.ts'
import type { EventStatus } from '../domain/status.ts'
import type { StoredEventFields } from '../domain/stored-event.ts'
import { gatherEvents } from './event-gather.ts'
import { checkFilter, type EventFilter, matchEvents } from './event-match.ts'
import { chooseSource } from './event-sources.ts'
import { countEvents } from './event-total.ts'
import { walkEvents } from './event-walk.ts'
import type { EventProgress } from './events.ts'
import { type CheckedPaging, checkPaging, encodeCursor, type Order, type Total, totalMax } from './paging.ts'
import { type Reader, readAtOnce } from './reader.ts'

export type { EventFilter } from './event-match.ts'

/** An event in a list: everything but its payload, which may be a megabyte. */
export interface ListedEvent extends Omit<StoredEventFields, 'payloadText' | 'maxRetries'>, EventProgress {}

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
      events: await readEvents(reader, pageIds, order),
      ...total,
      nextCursor: ids.length > offset + limit && last !== undefined ? encodeCursor(order, last) : null,
    }
  })
}

const eventIdForm = /^\d{1,16}$/

/** The ids up to the page's end and one more, which tells whether a page follows. */
async function findEvents(
  reader: Reader,
  filter: EventFilter,
  { limit, offset, after: cursor, order }: CheckedPaging,
): Promise<Total & { ids: number[] }> {
  const { status } = filter
  const match = await matchEvents(reader, filter)
  const source = await chooseSource(reader, status, match)
  const after = cursor === null ? null : Number(cursor)
  const count = offset + limit + 1
  if (source.kind === 'gathered') {
    const gathered = await gatherEvents(reader, { ...source, match, order, after, count })
    return { ...gathered, totalIsEstimate: false }
  }
  const walk = { source, match, status, order, after, count, examinedMax: Number.POSITIVE_INFINITY }
  if (source.kind === 'few') {
    const all = await walkEvents(reader, { ...walk, after: null, count: totalMax + 1 })
    // Unless the planner was wrong and they are many.
    if (all.end === 'exhausted') {
      const isBeyond = (id: number) => after === null || (order === 'asc' ? id > after : id < after)
      return { ids: all.ids.filter(isBeyond), total: all.ids.length, totalIsEstimate: false }
    }
  }
  const { ids, end } = await walkEvents(reader, walk)
  // A walk from one end to the other has counted them all.
  if (end === 'exhausted' && after === null) return { ids, total: ids.length, totalIsEstimate: false }
  return { ids, ...(await countEvents(reader, { source, match, status })) }
}

async function readEvents(reader: Reader, ids: readonly number[], order: Order): Promise<ListedEvent[]> {
  if (ids.length === 0) return []
  const rows = await reader.run<ListedRow>(readListed(reader), [numberArray(ids)])
  const events = rows.map(listedFromRow)
  return events.sort((a, b) => (order === 'asc' ? a.id - b.id : b.id - a.id))
}

const readListed = defineStatement(
  'read_listed_events',
  `select e.id, e.type, e.title, e.description, e.tags, e.ordering_key, e.concurrency_key, e.version, e.source,
    e."timestamp", e.correlation_id, e.causation_id, e.traceparent, e.run_at, e.expires_at, e.created_at,
    s.status, s.attempts, s.retry_count, s.max_retries, s.next_retry_at, s.updated_at
  from __schema__.event_states($1) as s
  join __schema__.events e on e.id = s.event_id`,
)

type ListedRow = [
  id: number,
  type: string | null,
  title: string | null,
  description: string | null,
  tags: string[] | null,
  orderingKey: string | null,
  concurrencyKey: string | null,
  version: string | null,
  source: Origin | null,
  timestamp: Date | null,
  correlationId: string | null,
  causationId: string | null,
  traceparent: string | null,
  runAt: Date | null,
  expiresAt: Date | null,
  createdAt: Date,
  status: EventStatus,
  attempts: number,
  retryCount: number,
  maxRetries: number | null,
  nextRetryAt: Date | null,
  updatedAt: Date,
]

function listedFromRow(row: ListedRow): ListedEvent {
  return {
    id: row[0],
    type: row[1],
    title: row[2],
    description: row[3],
    tags: row[4],
    orderingKey: row[5],
    concurrencyKey: row[6],
    version: row[7],
    source: row[8],
    timestamp: row[9],
    correlationId: row[10],
    causationId: row[11],
    traceparent: row[12],
    runAt: row[13],
    expiresAt: row[14],
    createdAt: row[15],
    status: row[16],
    attempts: row[17],
    retryCount: row[18],
    maxRetries: row[19],
    nextRetryAt: row[20],
    updatedAt: row[21],
  }
}
