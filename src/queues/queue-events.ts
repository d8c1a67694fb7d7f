import { badOption, checkWhole, limitMax } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import { numberArray } from '../db/array.ts'
import { defineStatement } from '../db/database.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import { type EventRow, eventFromRow } from '../engine/event-row.ts'

/** An event that waits in a queue or is being attempted, and how that has gone so far. */
export interface QueuedEvent {
  readonly event: StoredEvent
  /** Left out: what came before it on the page was large enough. */
  readonly isPayloadLeftOut: boolean
  readonly retryCount: number
  readonly lastError: string | null
  readonly lastErrorAt: Date | null
  /** Null: it is not being attempted. */
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
 * What waits in a queue or is leased: first what is out or can go, by age, then what waits behind in lanes, then what has
 * just come in, then what is in memory as last persisted. Each by an index, so that a page costs the same however much waits; a queue that moves meanwhile moves.
 */
export async function listQueueEvents(
  reader: Pick<Reader, 'run' | 'schema'>,
  queue: number,
  paging: QueuedPaging,
): Promise<QueuedPage> {
  checkWhole('limit', paging.limit, 0, limitMax)
  const { ids, next } = await walk(reader, queue, paging)
  const events = await readQueued(
    reader,
    ids.map((id) => ({ queue, id })),
  )
  return {
    events: events.map(({ queued }) => queued),
    nextCursor: next === null ? null : encode(queue, next),
  }
}

/** The first events of several queues, by queue: payloads are left out beyond what one page may have in all. */
export async function listFirstEvents(
  reader: Pick<Reader, 'run' | 'schema'>,
  queues: readonly number[],
  { limit }: { readonly limit: number },
): Promise<Map<number, QueuedPage>> {
  checkWhole('events', limit, 0, limitMax)
  const places: QueuedPlace[] = []
  const cursors = new Map<number, string>()
  for (const queue of queues) {
    const { ids, next } = await walk(reader, queue, { limit })
    places.push(...ids.map((id) => ({ queue, id })))
    if (next !== null) cursors.set(queue, encode(queue, next))
  }
  const found = await readQueued(reader, places)
  const page = (queue: number): QueuedPage => ({
    events: found.filter((one) => one.queue === queue).map(({ queued }) => queued),
    nextCursor: cursors.get(queue) ?? null,
  })
  return new Map(queues.map((queue) => [queue, page(queue)]))
}

interface QueuedPlace {
  readonly queue: number
  readonly id: number
}

/** Where a page ended: the source, the row in it, and how many of that row's deliveries were shown. */
type Place = readonly [source: number, a: string, b: string, shown: number]

async function walk(
  reader: Pick<Reader, 'run' | 'schema'>,
  queue: number,
  { limit, cursor }: QueuedPaging,
): Promise<{ ids: number[]; next: Place | null }> {
  const ids: number[] = []
  if (limit === 0) return { ids, next: null }
  const [first, a, b, shown] = cursor === undefined ? beginning : decode(queue, cursor)
  for (const [source, statement] of sources.entries()) {
    if (source < first) continue
    const from = source === first ? [a, b] : (beginnings[source] as readonly string[])
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

const beginnings = [
  ['0', '0'],
  ['', '0'],
  ['0', '0'],
  ['0', '0'],
]
const beginning: Place = [0, '0', '0', 0]

type SourceRow = [a: string, b: string, eventIds: number[]]

const runsStatement = defineStatement(
  'queue_runs',
  `select r.first_id::text, r.id::text, r.event_ids
  from (
    (select r.first_id, r.id, r.event_ids from __schema__.runs r
     where r.subscription = $1 and r.state = 'ready' and r.first_id >= $2::bigint and (r.first_id, r.id) >= ($2::bigint, $3::bigint)
     order by r.first_id, r.id limit $4)
    union all
    (select r.first_id, r.id, r.event_ids from __schema__.runs r
     where r.subscription = $1 and r.state = 'leased' and (r.first_id, r.id) >= ($2::bigint, $3::bigint)
     order by r.first_id, r.id limit $4)
    union all
    (select r.first_id, r.id, r.event_ids from __schema__.runs r
     where r.subscription = $1 and r.state in ('deferred', 'delayed', 'held', 'gated', 'blocked') and r.first_id >= $2::bigint
       and (r.first_id, r.id) >= ($2::bigint, $3::bigint)
     order by r.first_id, r.id limit $4)
  ) as r
  order by r.first_id, r.id
  limit $4`,
)

const lanesStatement = defineStatement(
  'queue_lanes',
  `select q.ordering_key, q.position::text, q.event_ids
  from __schema__.lane_queue q
  where q.subscription = $1 and (q.ordering_key, q.position) >= ($2::text, $3::bigint)
  order by q.ordering_key, q.position
  limit $4`,
)

const inboxStatement = defineStatement(
  'queue_inbox',
  `select i.xid::text, i.id::text, i.event_ids
  from __schema__.inbox i
  where i.subscription = $1 and i.event_ids is not null and (i.xid, i.id) >= ($2::text::xid8, $3::bigint)
  order by i.xid, i.id
  limit $4`,
)

/** Of a queue in memory, as it was last persisted. */
const memoryStatement = defineStatement(
  'queue_memory',
  `select m.event_id::text, '0', array[m.event_id]
  from __schema__.memory_events m
  left join __schema__.memory_queues q on q.subscription = m.subscription
  where m.subscription = $1 and m.event_id >= $2::bigint and $3::bigint = 0 and m.event_id > coalesce(q.checkpoint, 0)
  order by m.event_id
  limit $4`,
)

const sources = [runsStatement, lanesStatement, inboxStatement, memoryStatement]

/** In the order given. Payloads beyond 4 MB in all are left out, except the first. */
async function readQueued(
  reader: Pick<Reader, 'run' | 'schema'>,
  places: readonly QueuedPlace[],
): Promise<{ queue: number; queued: QueuedEvent }[]> {
  if (places.length === 0) return []
  const rows = await reader.run<QueuedRow>(readStatement(reader), [
    numberArray(places.map(({ queue }) => queue)),
    numberArray(places.map(({ id }) => id)),
  ])
  return rows.map(
    ([queue, isPayloadLeftOut, retryCount, lastError, lastErrorAt, processingStartedAt, ...event]) => ({
      queue,
      queued: {
        event: eventFromRow(event),
        ...{ isPayloadLeftOut, retryCount, lastError, lastErrorAt, processingStartedAt },
      },
    }),
  )
}

const readStatement = defineStatement(
  'queue_events',
  `with asked as materialized (
    select u.queue, u.id, u.place from unnest($1::int[], $2::bigint[]) with ordinality as u(queue, id, place)
  ),
  found as materialized (
    select e as event, d.failures, d.last_error, d.last_error_at, d.leased_at, a.queue, a.place
    from asked a
    join __schema__.events e on e.id = a.id
    join __schema__.delivery_states($2::bigint[]) as d on d.event_id = e.id and d.subscription = a.queue
    where e.id = any($2::bigint[])
    union all
    select __schema__.memory_event(m), m.failures, m.last_error, m.last_error_at, null, a.queue, a.place
    from asked a
    join __schema__.memory_events m on m.subscription = a.queue and m.event_id = a.id
  ),
  stored as materialized (
    select f.*,
      sum(octet_length((f.event).payload)) over (order by f.place) - octet_length((f.event).payload) as before
    from found f
  )
  select e.queue, e.before >= 4194304, e.failures, e.last_error, e.last_error_at, e.leased_at,
    (e.event).id, (e.event).type, case when e.before < 4194304 then (e.event).payload else 'null' end,
    (e.event).ordering_key, date_part('epoch', (e.event).created_at) * 1000, __schema__.rare_fields(e.event)
  from stored e
  order by e.place`,
)

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

/** Whatever else was encoded into it, only what has the form of a place reaches a statement. */
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
