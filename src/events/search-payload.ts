import type { SearchedTo } from '../core/list-page.ts'
import {
  type Candidates,
  type Judged,
  usualBounds,
  type WalkBounds,
  type WalkedList,
  walk,
} from '../core/list-walk.ts'
import { checkPaging, type Order } from '../core/paging.ts'
import { type Reader, readAtOnce } from '../core/reader.ts'
import { numberArray } from '../db/array.ts'
import type { Database } from '../db/database.ts'
import { badOption } from '../domain/bad-value.ts'
import { hasValues, isPath, type PayloadPath } from '../domain/payload-path.ts'
import { type EventFilter, eventTerms } from './event-filter.ts'
import { eventList } from './event-list.ts'
import { eventPlace } from './list-events.ts'
import { type ListedEvent, readListed } from './listed-event.ts'
import { newestPayloads, oldestPayloads } from './payload-statements.ts'

/** The caller sees to it that there is a `createdFrom`. */
export interface PayloadSearch extends EventFilter {
  /** All of them. */
  readonly paths: readonly PayloadPath[]
}

export interface PayloadSearchPage extends SearchedTo {
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

/** Events whose payloads have certain values. No index knows them, so it looks at each, and says how far it came. */
export async function searchPayload(
  db: Database,
  search: PayloadSearch,
  bounds: WalkBounds = usualBounds,
): Promise<PayloadSearchPage> {
  const { paths, ...filter } = search
  const terms = eventTerms(filter)
  if (!Array.isArray(paths) || !paths.every(isPath)) {
    throw badOption('paths', 'a list of { path, value }, of texts', paths)
  }
  const paging = checkPaging('events', { ...search, offset: 0 }, eventPlace)
  const { limit, order, cursorAt } = paging
  return readAtOnce(db, async (reader) => {
    const list = await eventList(reader, terms, paging)
    const looked = new LookedAt()
    const judge = (window: Candidates<number>, max: number) =>
      judgePayloads(reader, { list, paths, order, looked }, window, max)
    const request = { order, after: list.after, count: limit, bounds }
    const { items, reached } = await walk(reader, { ...list, judge }, request)
    return {
      events: await readListed(reader, items, order),
      searched: { ...looked, complete: reached === null },
      nextCursor: reached === null ? null : cursorAt(reached),
      searchedTo: reached === null || items.length >= limit ? null : await list.timeAt(reached),
    }
  })
}

class LookedAt {
  events = 0
  from: Date | null = null
  to: Date | null = null

  add(createdAt: Date): void {
    this.events += 1
    if (this.from === null || createdAt < this.from) this.from = createdAt
    if (this.to === null || createdAt > this.to) this.to = createdAt
  }
}

interface PayloadJudge {
  readonly list: WalkedList<number, number>
  readonly paths: readonly PayloadPath[]
  readonly order: Order
  readonly looked: LookedAt
}

/** Payloads of this many bytes are read at a time, and this many bytes cost as much as a row. */
const portionBytesMax = 1_000_000
const bytesPerRow = 256

async function judgePayloads(
  reader: Reader,
  { list, paths, order, looked }: PayloadJudge,
  window: Candidates<number>,
  itemsMax: number,
): Promise<Judged<number, number>> {
  const fitting = await list.judge(window, itemsMax)
  const statement = order === 'asc' ? oldestPayloads(reader) : newestPayloads(reader)
  const payloads =
    fitting.items.length === 0
      ? []
      : await reader.run<PayloadRow>(statement, [numberArray(fitting.items), portionBytesMax])
  const items: number[] = []
  let rows = fitting.rows
  for (const [id, createdAt, text] of payloads) {
    rows += 1 + text.length / bytesPerRow
    looked.add(createdAt)
    if (hasValues(text, paths)) items.push(id)
    if (items.length === itemsMax) return { items, rows, reached: id }
  }
  const last = payloads.at(-1)
  return payloads.length === fitting.items.length || last === undefined
    ? { items, rows }
    : { items, rows, reached: last[0] }
}

type PayloadRow = [id: number, createdAt: Date, text: string]
