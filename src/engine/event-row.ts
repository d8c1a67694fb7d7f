import type { EventAttributes, EventSource } from '../domain/event.ts'
import { type RareFields, type StoredEvent, storedEvent } from '../domain/stored-event.ts'

/**
 * An event as it travels on hot paths: the fields that every event has, and one JSON text for those that few
 * have, so that 500 plain events cost five values each and not nineteen.
 */
export const eventColumns = `e.id, e.type, e.payload, e.ordering_key, date_part('epoch', e.created_at) * 1000,
    case when num_nonnulls(e.title, e.description, e.tags, e.concurrency_key, e.version, e.source, e."timestamp",
        e.correlation_id, e.causation_id, e.traceparent, e.run_at, e.expires_at, e.max_retries, e.attributes) > 0
      then json_build_array(e.title, e.description, e.tags, e.concurrency_key, e.version, e.source, e."timestamp",
        e.correlation_id, e.causation_id, e.traceparent, e.run_at, e.expires_at, e.max_retries, e.attributes)::text
    end`

export type EventRow = [
  id: number,
  type: string | null,
  payload: string,
  orderingKey: string | null,
  createdAtMs: number,
  rest: string | null,
]

type Rest = [
  title: string | null,
  description: string | null,
  tags: string[] | null,
  concurrencyKey: string | null,
  version: string | null,
  source: EventSource | null,
  timestamp: string | null,
  correlationId: string | null,
  causationId: string | null,
  traceparent: string | null,
  runAt: string | null,
  expiresAt: string | null,
  maxRetries: number | null,
  attributes: EventAttributes | null,
]

/** Reads the event that begins at `at` in a row: by position, since unpacking the rest of each row costs more. */
export function eventFromRow(row: readonly unknown[], at = 0): StoredEvent {
  const core = {
    id: row[at] as number,
    type: row[at + 1] as string | null,
    payloadText: row[at + 2] as string,
    orderingKey: row[at + 3] as string | null,
    createdAtMs: row[at + 4] as number,
  }
  const rest = row[at + 5] as string | null
  return rest === null ? storedEvent(core) : storedEvent(core, rareFields(JSON.parse(rest) as Rest))
}

function rareFields(rest: Rest): RareFields {
  return {
    title: rest[0],
    description: rest[1],
    tags: rest[2],
    concurrencyKey: rest[3],
    version: rest[4],
    source: rest[5],
    timestamp: toDate(rest[6]),
    correlationId: rest[7],
    causationId: rest[8],
    traceparent: rest[9],
    runAt: toDate(rest[10]),
    expiresAt: toDate(rest[11]),
    maxRetries: rest[12],
    attributes: rest[13],
  }
}

function toDate(text: string | null): Date | null {
  return text === null ? null : new Date(text)
}
