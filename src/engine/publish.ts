import { createHash } from 'node:crypto'
import { numberArray, textArray } from '../db/array.ts'
import type { Connection } from '../db/database.ts'
import { badTransaction, type CallerTransaction, rowsOf } from '../domain/caller-transaction.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import type { EventAttributes, NewEvent } from '../domain/event.ts'
import { type StoredEvent, storedEvent } from '../domain/stored-event.ts'
import type { Subscription } from '../domain/subscription.ts'
import { publishStatement } from './publish-statements.ts'

export interface PublishRequest {
  readonly events: readonly NewEvent[]
  /** The notification to other processes at commit; null: none. Polling finds the events either way. */
  readonly wake: string | null
  /** The runner of this process that waits for work: deliveries without a key may be leased to it at once. */
  readonly idle?: IdleRunner
  /** `together`: if one event is refused, none is stored. */
  readonly refuse?: 'each' | 'together'
  /** Queues in the memory of this process, by number: these do not refuse the events. */
  readonly memoryHere?: readonly number[]
}

export interface IdleRunner {
  readonly subscriptions: readonly Subscription[]
  readonly token: number
  readonly worker: number
}

export interface Published {
  readonly id: number
  /** The idempotency key was used before for the same event: `id` is that of the first event. */
  readonly replayed: boolean
  /** The idempotency key was used before for another event: nothing was stored. */
  readonly conflict: boolean
  /** The subscriptions that the event is owed to. */
  readonly owed: readonly number[]
  /** The event required a route and no subscription wanted it: it is a dead letter. */
  readonly unwanted: boolean
  readonly createdAt: Date
  /** When the event expires by the rule of its type; null: it says so itself, or never expires. */
  readonly endsAt: Date | null
  /** Why the event was not stored; null: it was stored. */
  readonly refused: Refusal | null
  /** Names of queues that the event is owed to and that are past their high watermark. */
  readonly pressed: readonly string[]
}

/** A queue that does not take an event: it is full, draining, or in the memory of another process. */
export interface Refusal {
  readonly why: 'full' | 'draining' | 'memory'
  readonly queue: string
}

export interface PublishAnswer {
  /** In the order of the events. */
  readonly published: readonly Published[]
  /** The runs that were leased to the idle runner. */
  readonly runs: readonly LeasedRun[]
}

/** Stores events and the deliveries that are owed, in the order of the events. */
export async function publish(db: Connection & Schema, request: PublishRequest): Promise<PublishAnswer> {
  const rows = await db.run<PublishRow>(publishStatement(db), publishValues(request))
  const published = inOrder(rows)
  const handed = rows[0]?.[6] ?? null
  return { published, runs: handed === null ? [] : handedRuns(handed, published, request) }
}

/** The same on the caller's own transaction. */
export async function publishIn(
  tx: CallerTransaction,
  db: Schema,
  request: PublishRequest,
): Promise<Published[]> {
  const rows = rowsOf(await tx.query(publishStatement(db).text, publishValues(request)))
  checkAnswer(rows, request.events.length)
  return inOrder(
    rows.map((row) => [
      row.places,
      row.ids,
      row.replayed,
      row.conflict,
      row.owed,
      row.at,
      null,
      row.ends,
      row.refused,
      row.pressed,
    ]),
  )
}

/** The caller's transaction may be a wrapper or a mock: without an answer for each event, none counts as published. */
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

/** Null if no event has a value: then the column costs nothing. */
function column<T>(
  events: readonly NewEvent[],
  value: (event: NewEvent) => T | null,
  format: (values: (T | null)[]) => string,
): string | null {
  const values = events.map(value)
  return values.every((one) => one === null) ? null : format(values)
}

/** By which an idempotency key recognises the same event: the hash of all its fields. */
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
  for (const [places, ids, replayed, conflict, owedText, createdAtMs, , endsAtMs, ...queues] of rows) {
    const [refusedText, pressedText] = queues
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

/** From a text such as `full:billing`; a queue's name may contain colons. */
function toRefusal(text: string): Refusal {
  const colon = text.indexOf(':')
  return { why: text.slice(0, colon) as Refusal['why'], queue: text.slice(colon + 1) }
}

/** The runs that the publishing statement has leased, as a lease would have returned them. */
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
      id,
      subscription: no,
      token,
      laneKey: null,
      suspect: false,
      leasedUntil,
      deliveries: [],
    }
    for (const [position, one] of published.entries()) {
      const event = toStored(events[position] as NewEvent, one)
      run.deliveries.push({ run, event, attempt: 1, failures: 0 })
    }
    return run
  })
}

/** The event as it would be read from the database. Only events without delay and expiry are handed over. */
export function toStored(
  event: NewEvent,
  { id, createdAt }: Pick<Published, 'id' | 'createdAt'>,
): StoredEvent {
  const { type, payloadText, orderingKey, timestamp, attributes } = event
  const { title, description, tags, concurrencyKey, version, source } = event
  const { correlationId, causationId, traceparent, maxRetries } = event
  const core = { id, type, payloadText, orderingKey, createdAtMs: createdAt.getTime() }
  const texts = title ?? description ?? tags ?? concurrencyKey ?? version ?? source
  const rest = correlationId ?? causationId ?? traceparent ?? maxRetries ?? timestamp ?? attributes
  if ((texts ?? rest) === null) return storedEvent(core)
  return storedEvent(core, {
    title,
    description,
    tags,
    concurrencyKey,
    version,
    source,
    correlationId,
    causationId,
    traceparent,
    maxRetries,
    timestamp: timestamp === null ? null : new Date(timestamp),
    runAt: null,
    expiresAt: null,
    attributes: attributes === null ? null : (JSON.parse(attributes) as EventAttributes),
  })
}
