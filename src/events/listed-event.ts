import type { Order } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import { numberArray } from '../db/array.ts'
import { defineStatement } from '../db/database.ts'
import type { EventSource as Origin } from '../domain/event.ts'
import type { EventStatus } from '../domain/status.ts'
import type { StoredEventFields } from '../domain/stored-event.ts'
import type { EventProgress } from './get-event.ts'

/** An event in a list: everything but its payload, which may be a megabyte. */
export interface ListedEvent
  extends Omit<StoredEventFields, 'payloadText' | 'maxRetries' | 'attributes'>,
    EventProgress {}

/** Those of the ids that are stored. */
export async function readListed(
  reader: Reader,
  ids: readonly number[],
  order: Order,
): Promise<ListedEvent[]> {
  if (ids.length === 0) return []
  const rows = await reader.run<ListedRow>(listedStatement(reader), [numberArray(ids)])
  const events = rows.map(listedFromRow)
  return events.sort((a, b) => (order === 'asc' ? a.id - b.id : b.id - a.id))
}

const listedStatement = defineStatement(
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
