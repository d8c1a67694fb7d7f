import type { Order } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import { numberArray } from '../db/array.ts'
import { defineStatement } from '../db/database.ts'
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
  const { text } = listedStatement(reader)
  const { rows } = await reader.query<ListedEvent>(text, [numberArray(ids)])
  return rows.sort((a, b) => (order === 'asc' ? a.id - b.id : b.id - a.id))
}

const listedStatement = defineStatement(
  'read_listed_events',
  `select e.id, e.type, e.title, e.description, e.tags, e.ordering_key as "orderingKey",
    e.concurrency_key as "concurrencyKey", e.version, e.source, e."timestamp", e.correlation_id as "correlationId",
    e.causation_id as "causationId", e.traceparent, e.run_at as "runAt", e.expires_at as "expiresAt",
    e.created_at as "createdAt", s.status, s.attempts, s.retry_count as "retryCount", s.max_retries as "maxRetries",
    s.next_retry_at as "nextRetryAt", s.updated_at as "updatedAt"
  from __schema__.event_states($1) as s
  join __schema__.events e on e.id = s.event_id`,
)
