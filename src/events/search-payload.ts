import { badOption, checkPaging, eventIdForm, type Order } from '../core/paging.ts'
import { type Reader, readAtOnce } from '../core/reader.ts'
import { numberArray } from '../db/array.ts'
import { type Database, defineStatement } from '../db/database.ts'
import { hasValues, isPath, type PayloadPath } from '../domain/payload-path.ts'
import { checkFilter, type EventFilter, matchEvents } from './event-match.ts'
import { sizeMatches } from './event-size.ts'
import { choosePath, type Path, walkEvents } from './event-walk.ts'
import { type ListedEvent, readListed } from './listed-event.ts'

/** The caller sees to it that there is a `createdFrom`. */
export interface PayloadSearch extends EventFilter {
  /** All of them. */
  readonly paths: readonly PayloadPath[]
}

export interface PayloadSearchPage {
  readonly events: readonly ListedEvent[]
  readonly searched: {
    /** How many payloads were looked at. */
    readonly events: number
    /** When the oldest and the newest of them were published. */
    readonly from: Date | null
    readonly to: Date | null
    /** Nothing is left to look at. */
    readonly complete: boolean
  }
  /** Goes on where the search stopped, also if the page is not full. */
  readonly nextCursor: string | null
}

/** What one call may cost. However little that is, it comes a step further. */
export interface SearchBounds {
  readonly eventsMax: number
  readonly searchMs: number
}

const usualBounds: SearchBounds = { eventsMax: 20_000, searchMs: 1000 }

/** Events whose payloads have certain values. No index knows them, so it looks at each, and says how far it came. */
export async function searchPayload(
  db: Database,
  search: PayloadSearch,
  { eventsMax, searchMs }: SearchBounds = usualBounds,
): Promise<PayloadSearchPage> {
  const { paths, ...filter } = search
  checkFilter(filter)
  if (!Array.isArray(paths) || !paths.every(isPath)) {
    throw badOption('paths', 'a list of { path, value }, of texts', paths)
  }
  const paging = checkPaging('events', { ...search, offset: 0 }, eventIdForm)
  const { limit, after: cursor, order } = paging
  const after = cursor === null ? null : Number(cursor)
  return readAtOnce(db, async (reader) => {
    const until = performance.now() + searchMs
    const match = await matchEvents(reader, search)
    const path = choosePath(match, await sizeMatches(reader, match), search.status)
    const task = { path, paths, order, after, limit, eventsMax, until }
    const { found, complete, last, ...searched } = await searchAlong(reader, task)
    return {
      events: await readListed(reader, found, order),
      searched: { ...searched, complete },
      nextCursor: complete || last === null ? null : paging.cursorAt(last),
    }
  })
}

interface Task extends Omit<SearchBounds, 'searchMs'> {
  readonly path: Path
  readonly paths: readonly PayloadPath[]
  readonly order: Order
  readonly after: number | null
  readonly limit: number
  readonly until: number
}

interface Progress {
  readonly found: number[]
  events: number
  from: Date | null
  to: Date | null
  last: number | null
  complete: boolean
}

/** So many are found at a time, and so many looked at to find them: between two such steps the time is checked. */
const portion = 500
const stepMax = 4096

async function searchAlong(reader: Reader, task: Task): Promise<Progress> {
  const { path, order, after } = task
  const progress: Progress = { found: [], events: 0, from: null, to: null, last: after, complete: false }
  do {
    const walk = { path, order, after: progress.last, count: portion, examinedMax: stepMax }
    const walked = await walkEvents(reader, walk)
    const wholly = await lookThrough(reader, task, walked.ids, progress)
    progress.complete = wholly && walked.end === 'exhausted'
    if (wholly) progress.last = walked.last
  } while (!progress.complete && !isOver(task, progress))
  return progress
}

function isOver({ after, limit, eventsMax, until }: Task, { found, events, last }: Progress): boolean {
  return found.length >= limit || events >= eventsMax || (last !== after && performance.now() >= until)
}

/** Whether it came to the end of the ids. */
async function lookThrough(
  reader: Reader,
  task: Task,
  ids: readonly number[],
  progress: Progress,
): Promise<boolean> {
  let looked = 0
  while (looked < ids.length && !isOver(task, progress)) {
    const payloads = await readPayloads(reader, ids.slice(looked), task.order)
    for (const { id, createdAt, text } of payloads) {
      if (isOver(task, progress)) return false
      if (hasValues(text, task.paths)) progress.found.push(id)
      if (progress.from === null || createdAt < progress.from) progress.from = createdAt
      if (progress.to === null || createdAt > progress.to) progress.to = createdAt
      progress.events += 1
      progress.last = id
      looked += 1
    }
  }
  return looked === ids.length
}

interface Payload {
  readonly id: number
  readonly createdAt: Date
  readonly text: string
}

const portionBytesMax = 4_000_000

/** The first of them, as many as fit. */
async function readPayloads(reader: Reader, ids: readonly number[], order: Order): Promise<Payload[]> {
  const rows = await reader.run<[id: number, createdAt: Date, text: string]>(
    order === 'asc' ? oldestStatement(reader) : newestStatement(reader),
    [numberArray(ids), portionBytesMax],
  )
  return rows.map(([id, createdAt, text]) => ({ id, createdAt, text }))
}

const oldestStatement = defineStatement('read_oldest_payloads', payloadsInOrder('asc'))
const newestStatement = defineStatement('read_newest_payloads', payloadsInOrder('desc'))

/** The first one always fits. A length is known without reading the text. */
function payloadsInOrder(order: Order): string {
  return `select p.id, p.created_at, p.payload
  from (
    select e.id, e.created_at, e.payload,
      sum(octet_length(e.payload)) over (order by e.id ${order}) - octet_length(e.payload) as bytes_before
    from __schema__.events e
    where e.id = any($1::bigint[])
  ) as p
  where p.bytes_before < $2
  order by p.id ${order}`
}
