import { createHash } from 'node:crypto'
import { numberArray, textArray } from '../db/array.ts'
import { type Connection, defineStatement } from '../db/database.ts'
import { badTransaction, type CallerTransaction, rowsOf } from '../domain/caller-transaction.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import type { EventAttributes, NewEvent } from '../domain/event.ts'
import { type StoredEvent, storedEvent } from '../domain/stored-event.ts'
import type { Subscription } from '../domain/subscription.ts'

export interface PublishRequest {
  readonly events: readonly NewEvent[]
  /** What to tell other processes at commit; null: nothing. Polling finds the events either way. */
  readonly wake: string | null
  /** Who in this process waits for work: unkeyed deliveries of theirs may be leased to them at once. */
  readonly idle?: IdleRunner
  /** `together`: where one is refused, none is stored. */
  readonly refuse?: 'each' | 'together'
  /** Queues in the memory of this process, by number: what is stored for them finds its way here. */
  readonly memoryHere?: readonly number[]
}

export interface IdleRunner {
  readonly subscriptions: readonly Subscription[]
  readonly token: number
  readonly worker: number
}

export interface Published {
  readonly id: number
  /** The idempotency key was used before, for the same event: this is the first one. */
  readonly replayed: boolean
  /** The idempotency key was used before, for another event: nothing was stored. */
  readonly conflict: boolean
  /** The subscriptions it is owed to. */
  readonly owed: readonly number[]
  /** Nobody wanted it though somebody had to: it is a dead letter. */
  readonly unwanted: boolean
  readonly createdAt: Date
  /** When it expires because its type does; null if it says so itself, or never does. */
  readonly endsAt: Date | null
  /** Why it was not stored; null: it was. */
  readonly refused: Refusal | null
  /** The queues it is owed to that are past their high watermark, by name. */
  readonly pressed: readonly string[]
}

/** A queue that does not take it: full, draining, or in the memory of another process. */
export interface Refusal {
  readonly why: 'full' | 'draining' | 'memory'
  readonly queue: string
}

export interface PublishAnswer {
  /** In the order given. */
  readonly published: readonly Published[]
  /** What was leased to the idle runner. */
  readonly runs: readonly LeasedRun[]
}

/** Stores events and what is owed of them, in the order given. */
export async function publish(db: Connection & Schema, request: PublishRequest): Promise<PublishAnswer> {
  const rows = await db.run<PublishRow>(publishStatement(db), publishValues(request))
  const published = inOrder(rows)
  const handed = rows[0]?.[6] ?? null
  return { published, runs: handed === null ? [] : handedRuns(handed, published, request) }
}

/** The same through anything that can run SQL: a caller's own transaction. */
export async function publishIn(
  tx: CallerTransaction,
  db: Schema,
  request: PublishRequest,
): Promise<Published[]> {
  const rows = rowsOf(await tx.query(publishStatement(db).text, publishValues(request)))
  checkAnswer(rows, request.events.length)
  return inOrder(
    rows.map((r) => [
      ...([r.places, r.ids, r.replayed, r.conflict, r.owed, r.at, null, r.ends] as const),
      ...([r.refused, r.pressed] as const),
    ]),
  )
}

/** What runs the caller's SQL may be a wrapper or a mock: without an answer to each event none counts as published. */
function checkAnswer(rows: readonly unknown[], events: number): asserts rows is readonly NamedRow[] {
  const placesOf = (row: unknown) => (row as Partial<NamedRow> | null)?.places
  const places = rows.flatMap((row) => String(placesOf(row) ?? '').split(',')).map(Number)
  const isOurs = places.every((place) => place >= 1 && place <= events)
  if (isOurs && new Set(places).size === events) return
  const expected = 'a transaction whose query(text, values) resolves to the rows of the statement'
  throw badTransaction(expected, `${rows.length} rows that do not answer it`)
}

interface Schema {
  readonly schema: string
}

/**
 * No bigint, array or time among the columns: no two drivers read those alike, and a caller's may be any. Most
 * events of a call have the same answer but for their ids, so it comes as one row and not as a thousand.
 */
const publishStatement = defineStatement(
  'publish',
  `select string_agg(place::text, ',') as places, string_agg(id::text, ',') as ids, replayed, conflict, owed,
    date_part('epoch', created_at) * 1000 as at, handed, date_part('epoch', ends_at) * 1000 as ends,
    refused, pressed
  from __schema__.publish_many($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
    $8::text[], $9::text[], $10::timestamptz[], $11::text[], $12::text[], $13::text[], $14::timestamptz[],
    $15::timestamptz[], $16::smallint[], $17::text[], $18::bytea[], $19::boolean[], $20::text[], $21::text[], $22, $23::int[],
    $24::int[], $25::bigint, $26::int, $27::boolean, $28::int[])
  group by replayed, conflict, owed, created_at, handed, ends_at, refused, pressed`,
)

function publishValues({ events, wake, idle, refuse = 'each', memoryHere }: PublishRequest): unknown[] {
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
    keyed ? textArray(events.map((event) => event.idempotencyScope)) : null,
    textColumn(events, (event) => event.attributes),
    wake,
    idle === undefined ? null : numberArray(idle.subscriptions.map((subscription) => subscription.no)),
    idle === undefined ? null : numberArray(idle.subscriptions.map((subscription) => subscription.leaseMs)),
    idle?.token ?? null,
    idle?.worker ?? null,
    refuse === 'together',
    memoryHere === undefined ? null : numberArray(memoryHere),
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
  const { idempotencyFingerprint: given } = event
  return `\\x${given ?? createHash('sha256').update(JSON.stringify(event)).digest('hex')}`
}

type PublishRow = [
  places: string,
  ids: string,
  replayed: boolean,
  conflict: boolean,
  owed: string | null,
  createdAtMs: number,
  handed: string | null,
  endsAtMs: number | null,
  refused: string | null,
  pressed: string | null,
]

interface NamedRow {
  readonly places: string
  readonly ids: string
  readonly replayed: boolean
  readonly conflict: boolean
  readonly owed: string | null
  readonly at: number
  readonly ends: number | null
  readonly refused: string | null
  readonly pressed: string | null
}

function inOrder(rows: readonly PublishRow[]): Published[] {
  const published: Published[] = []
  for (const [places, ids, replayed, conflict, owedText, createdAtMs, , endsAtMs, ...bars] of rows) {
    const [refusedText, pressedText] = bars
    const refused = refusedText === null ? null : toRefusal(refusedText)
    const pressed = pressedText?.split(',') ?? []
    const unwanted = owedText === '-'
    const owed = owedText && !unwanted ? owedText.split(',').map(Number) : []
    const createdAt = new Date(createdAtMs)
    const endsAt = endsAtMs === null ? null : new Date(endsAtMs)
    const idTexts = ids.split(',')
    for (const [position, place] of places.split(',').entries()) {
      published[Number(place) - 1] = {
        id: Number(idTexts[position]),
        replayed,
        conflict,
        owed,
        unwanted,
        createdAt,
        endsAt,
        refused,
        pressed,
      }
    }
  }
  return published
}

/** Such as `full:billing`; a name may hold colons, a reason does not. */
function toRefusal(text: string): Refusal {
  const colon = text.indexOf(':')
  return { why: text.slice(0, colon) as Refusal['why'], queue: text.slice(colon + 1) }
}

/** The runs that were leased as they were published, as a lease would have returned them. */
function handedRuns(
  handed: string,
  published: readonly Published[],
  { events, idle }: PublishRequest,
): LeasedRun[] {
  const { subscriptions, token } = idle as IdleRunner
  return handed.split(',').map((pair) => {
    const [no, id] = pair.split(':').map(Number) as [number, number]
    const { leaseMs } = subscriptions.find((subscription) => subscription.no === no) as Subscription
    const leasedUntil = new Date(Number(published[0]?.createdAt) + leaseMs)
    const run: LeasedRun = {
      ...{ id, subscription: no, token, laneKey: null, suspect: false, leasedUntil },
      deliveries: [],
    }
    for (const [position, one] of published.entries()) {
      const event = toStored(events[position] as NewEvent, one)
      run.deliveries.push({ run, event, attempt: 1, failures: 0 })
    }
    return run
  })
}

/** As reading it back would give it; only events without delay and expiry are handed over. */
export function toStored(
  event: NewEvent,
  { id, createdAt }: Pick<Published, 'id' | 'createdAt'>,
): StoredEvent {
  const { type, payloadText, orderingKey, timestamp, attributes } = event
  const { title, description, tags, concurrencyKey, version, source } = event
  const { correlationId, causationId, traceparent, maxRetries } = event
  const core = { id, type, payloadText, orderingKey, createdAtMs: createdAt.getTime() }
  const isPlain = (title ?? description ?? tags ?? concurrencyKey ?? version ?? source) === null
  if (
    isPlain &&
    (correlationId ?? causationId ?? traceparent ?? maxRetries ?? timestamp ?? attributes) === null
  ) {
    return storedEvent(core)
  }
  const rare = {
    ...{ title, description, tags, concurrencyKey, version, source },
    ...{ correlationId, causationId, traceparent, maxRetries },
    timestamp: timestamp === null ? null : new Date(timestamp),
    runAt: null,
    expiresAt: null,
    attributes: attributes === null ? null : (JSON.parse(attributes) as EventAttributes),
  }
  return storedEvent(core, rare)
}
