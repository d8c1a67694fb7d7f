import { limitMax } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import { numberArray } from '../db/array.ts'
import { badOption } from '../domain/bad-value.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import { integer } from '../domain/subscription.ts'
import { type EventRow, eventFromRow } from '../engine/event-row.ts'
import * as statements from './queue-event-statements.ts'

/** An event that waits in a queue or is being attempted, and how its attempts have gone so far. */
export interface QueuedEvent {
  readonly event: StoredEvent
  /** The events before it on the page were large enough. */
  readonly isPayloadLeftOut: boolean
  readonly retryCount: number
  readonly lastError: string | null
  readonly lastErrorAt: Date | null
  /** Null: no attempt is under way. */
  readonly processingStartedAt: Date | null
}

export interface QueuedPage {
  readonly events: readonly QueuedEvent[]
  readonly nextCursor: string | null
}

export interface QueuedPaging {
  readonly limit: number
  readonly cursor?: string | undefined
}

/**
 * The deliveries of a queue: first those in runs, by age, then those that wait in lanes, then those in the inbox, then those
 * in memory as last persisted. An index finds each, so a page costs the same however much waits. Deliveries that move between
 * two pages may be missing or appear twice.
 */
export async function listQueueEvents(
  reader: Reader,
  queue: number,
  paging: QueuedPaging,
): Promise<QueuedPage> {
  integer('limit', paging.limit, 0, limitMax)
  return (await listPages(reader, [queue], paging)).get(queue) as QueuedPage
}

/** The first events of several queues, by queue. One page's limit on payloads holds for all of them together. */
export async function listFirstEvents(
  reader: Reader,
  queues: readonly number[],
  { limit }: { readonly limit: number },
): Promise<Map<number, QueuedPage>> {
  integer('events', limit, 0, limitMax)
  return listPages(reader, queues, { limit })
}

/** A page of each queue. */
async function listPages(
  reader: Reader,
  queues: readonly number[],
  paging: QueuedPaging,
): Promise<Map<number, QueuedPage>> {
  const places: QueuedPlace[] = []
  const cursors = new Map<number, string>()
  for (const queue of queues) {
    const { ids, next } = await walk(reader, queue, paging)
    places.push(...ids.map((id) => ({ queue, id })))
    if (next !== null) cursors.set(queue, encode(queue, next))
  }
  const found = await readQueued(reader, places)
  const page = (queue: number): QueuedPage => ({
    events: found.filter((item) => item.queue === queue).map(({ queued }) => queued),
    nextCursor: cursors.get(queue) ?? null,
  })
  return new Map(queues.map((queue) => [queue, page(queue)]))
}

interface QueuedPlace {
  readonly queue: number
  readonly id: number
}

/** Where a page ended: the source, the key (a, b) of the row in it, and how many deliveries of that row were shown. */
type Place = readonly [source: number, a: string, b: string, shown: number]

/** Where deliveries are looked for, and the key at which each source begins. */
const sources = [
  { statement: statements.queueRuns, beginning: ['0', '0'] },
  { statement: statements.queueLanes, beginning: ['', '0'] },
  { statement: statements.queueInbox, beginning: ['0', '0'] },
  { statement: statements.queueMemory, beginning: ['0', '0'] },
] as const
const firstPlace: Place = [0, '0', '0', 0]

type SourceRow = [a: string, b: string, eventIds: number[]]

async function walk(
  reader: Reader,
  queue: number,
  { limit, cursor }: QueuedPaging,
): Promise<{ ids: number[]; next: Place | null }> {
  const ids: number[] = []
  if (limit === 0) return { ids, next: null }
  const [first, a, b, shown] = cursor === undefined ? firstPlace : decode(queue, cursor)
  for (const [source, { statement, beginning }] of sources.entries()) {
    if (source < first) continue
    const from = source === first ? [a, b] : beginning
    // Prepared: a list of queues runs these statements for each of its queues.
    const rows = await reader.run<SourceRow>(statement(reader), [queue, ...from, limit + 1])
    for (const [rowA, rowB, eventIds] of rows) {
      const start = source === first && rowA === a && rowB === b ? shown : 0
      const rest = eventIds.slice(start)
      if (ids.length === limit && rest.length > 0) return { ids, next: [source, rowA, rowB, start] }
      const fitting = rest.slice(0, limit - ids.length)
      ids.push(...fitting)
      if (fitting.length < rest.length) return { ids, next: [source, rowA, rowB, start + fitting.length] }
    }
  }
  return { ids, next: null }
}

/** In the order given. */
async function readQueued(
  reader: Reader,
  places: readonly QueuedPlace[],
): Promise<{ queue: number; queued: QueuedEvent }[]> {
  if (places.length === 0) return []
  const rows = await reader.run<QueuedRow>(statements.readQueueEvents(reader), [
    numberArray(places.map(({ queue }) => queue)),
    numberArray(places.map(({ id }) => id)),
  ])
  return rows.map((row) => {
    const [queue, isPayloadLeftOut, retryCount, lastError, lastErrorAt, processingStartedAt, ...event] = row
    const state = { isPayloadLeftOut, retryCount, lastError, lastErrorAt, processingStartedAt }
    return { queue, queued: { event: eventFromRow(event), ...state } }
  })
}

type QueuedRow = [
  queue: number,
  isPayloadLeftOut: boolean,
  retryCount: number,
  lastError: string | null,
  lastErrorAt: Date | null,
  processingStartedAt: Date | null,
  ...EventRow,
]

function encode(queue: number, place: Place): string {
  return Buffer.from(JSON.stringify([...place, queue])).toString('base64url')
}

/** A cursor may have been forged: only a well-formed place reaches a statement. */
function decode(queue: number, cursor: string): Place {
  const place = parse(Buffer.from(cursor, 'base64url').toString())
  const [source, a, b, shown, cursorQueue] = Array.isArray(place) ? place : []
  const isNumber = (text: unknown) => typeof text === 'string' && /^\d{1,18}$/.test(text)
  const isKey = (text: unknown) => typeof text === 'string' && text.length <= 255 && !text.includes('\0')
  const isPlace =
    cursorQueue === queue &&
    [0, 1, 2, 3].includes(source) &&
    (source === 1 ? isKey(a) : isNumber(a)) &&
    isNumber(b)
  if (isPlace && Number.isInteger(shown) && shown >= 0 && shown <= 1_000_000) return [source, a, b, shown]
  throw badOption('cursor', 'one that a page of this queue gave', cursor)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
