import type { EventAttributes, EventSource } from '../domain/event.ts'
import { type RareFields, type StoredEvent, storedEvent } from '../domain/stored-event.ts'

/**
 * An event as statements select it: e.id, e.type, e.payload, e.ordering_key, date_part('epoch', e.created_at) * 1000,
 * __schema__.rare_fields(e). Most events have none of the fields in the last column, so 500 plain ones are five values each.
 */
export type EventRow = [
  id: number,
  type: string | null,
  payload: string,
  orderingKey: string | null,
  createdAtMs: number,
  rareFields: string | null,
]

/** In the order of the SQL function `rare_fields`. */
type RareRow = [
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

/** Reads the event that begins at `at` in a row. By position: unpacking each row into names costs more. */
export function eventFromRow(row: readonly unknown[], at = 0): StoredEvent {
  const core = {
    id: row[at] as number,
    type: row[at + 1] as string | null,
    payloadText: row[at + 2] as string,
    orderingKey: row[at + 3] as string | null,
    createdAtMs: row[at + 4] as number,
  }
  const rare = row[at + 5] as string | null
  return rare === null ? storedEvent(core) : storedEvent(core, rareFields(JSON.parse(rare) as RareRow))
}

function rareFields(row: RareRow): RareFields {
  return {
    title: row[0],
    description: row[1],
    tags: row[2],
    concurrencyKey: row[3],
    version: row[4],
    source: row[5],
    timestamp: toDate(row[6]),
    correlationId: row[7],
    causationId: row[8],
    traceparent: row[9],
    runAt: toDate(row[10]),
    expiresAt: toDate(row[11]),
    maxRetries: row[12],
    attributes: row[13],
  }
}

function toDate(text: string | null): Date | null {
  return text === null ? null : new Date(text)
}
