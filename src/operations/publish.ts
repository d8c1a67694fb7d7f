import { createHash } from 'node:crypto'
import { numberArray, textArray } from '../db/array.ts'
import { type Connection, defineStatement } from '../db/database.ts'
import type { NewEvent } from '../domain/event.ts'
import type { CallerTransaction } from '../domain/transaction.ts'

export interface PublishRequest {
  readonly events: readonly NewEvent[]
  /** Whose idempotency keys: keys of different scopes never meet. */
  readonly scope: string
  /** What to tell other processes at commit; null: nothing. Polling finds the events either way. */
  readonly wake: string | null
}

export interface Published {
  readonly id: number
  /** The idempotency key was used before, for the same event: this is the first one. */
  readonly replayed: boolean
  /** The idempotency key was used before, for another event: nothing was stored. */
  readonly conflict: boolean
  /** The subscriptions it is owed to. */
  readonly owed: readonly number[]
  readonly createdAt: Date
}

/** Stores events and what is owed of them, in the order given. */
export async function publish(db: Connection & Schema, request: PublishRequest): Promise<Published[]> {
  const rows = await db.run<PublishRow>(publishStatement(db), publishValues(request))
  return inOrder(rows)
}

/** The same through anything that can run SQL: a caller's own transaction. */
export async function publishIn(
  tx: CallerTransaction,
  db: Schema,
  request: PublishRequest,
): Promise<Published[]> {
  const { rows } = await tx.query(publishStatement(db).text, publishValues(request))
  return inOrder(
    (rows as NamedRow[]).map((row) => [row.place, row.id, row.replayed, row.conflict, row.owed, row.at]),
  )
}

interface Schema {
  readonly schema: string
}

/** No bigint, array or time among the columns: no two drivers read those alike, and a caller's may be any. */
const publishStatement = defineStatement(
  'publish',
  `select place, id::float8 as id, replayed, conflict, owed,
    date_part('epoch', created_at) * 1000 as at
  from __schema__.publish_many($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
    $8::text[], $9::text[], $10::timestamptz[], $11::text[], $12::text[], $13::text[], $14::timestamptz[],
    $15::timestamptz[], $16::smallint[], $17::text[], $18::bytea[], $19::boolean[], $20, $21)`,
)

function publishValues({ events, scope, wake }: PublishRequest): unknown[] {
  const keyed = events.some((event) => event.idempotencyKey !== null)
  return [
    textArray(events.map((event) => event.payloadText)),
    textColumn(events, (event) => event.type),
    textColumn(events, (event) => event.title),
    textColumn(events, (event) => event.description),
    textColumn(events, (event) => event.tags?.join(',') ?? null),
    textColumn(events, (event) => event.orderingKey),
    textColumn(events, (event) => event.concurrencyKey),
    textColumn(events, (event) => event.version),
    textColumn(events, (event) => (event.source === null ? null : JSON.stringify(event.source))),
    textColumn(events, (event) => event.timestamp),
    textColumn(events, (event) => event.correlationId),
    textColumn(events, (event) => event.causationId),
    textColumn(events, (event) => event.traceparent),
    textColumn(events, (event) => event.runAt),
    textColumn(events, (event) => event.expiresAt),
    column(events, (event) => event.maxRetries, numberArray),
    textColumn(events, (event) => event.idempotencyKey),
    keyed ? textArray(events.map(fingerprint)) : null,
    textColumn(events, (event) => (event.requireRoute === null ? null : String(event.requireRoute))),
    scope,
    wake,
  ]
}

function textColumn(events: readonly NewEvent[], value: (event: NewEvent) => string | null): string | null {
  return column(events, value, textArray)
}

/** A column that no event uses is null as a whole and costs nothing. */
function column<T>(
  events: readonly NewEvent[],
  value: (event: NewEvent) => T | null,
  format: (values: (T | null)[]) => string,
): string | null {
  const values = events.map(value)
  return values.every((one) => one === null) ? null : format(values)
}

/** What "the same event" means to an idempotency key: all of it, byte for byte. */
function fingerprint(event: NewEvent): string {
  return `\\x${createHash('sha256').update(JSON.stringify(event)).digest('hex')}`
}

type PublishRow = [
  place: number,
  id: number,
  replayed: boolean,
  conflict: boolean,
  owed: string | null,
  createdAtMs: number,
]

interface NamedRow {
  readonly place: number
  readonly id: number
  readonly replayed: boolean
  readonly conflict: boolean
  readonly owed: string | null
  readonly at: number
}

function inOrder(rows: readonly PublishRow[]): Published[] {
  const published: Published[] = []
  for (const [place, id, replayed, conflict, owed, createdAtMs] of rows) {
    published[Number(place) - 1] = {
      id: Number(id),
      replayed,
      conflict,
      owed: owed ? owed.split(',').map(Number) : [],
      createdAt: new Date(createdAtMs),
    }
  }
  return published
}
