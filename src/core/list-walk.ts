import type { Term } from '../domain/list-terms.ts'
import { keysFrom, Parameters } from './list-sql.ts'
import type { Order } from './paging.ts'
import type { Reader } from './reader.ts'

/**
 * One walk for all lists. It takes the next candidates in order, a window of them, lets the list judge them, and goes on
 * with a larger window until it has enough matches, nothing is left, or the call has done its share of work.
 *
 * Each index that knows one of the terms is a source of candidates. A window goes along the source whose candidates reach
 * farthest: there the matches are rarest. So no statistics are needed, and a type that came up yesterday is found as
 * quickly as one that was always there.
 */

/** The place of an item in its list: the id of an event, or the UUID of a dead letter. */
export type Key = number | string

/** The items between two keys, without these. */
export interface Stretch<K extends Key> {
  readonly above: K
  readonly below: K
}

/** A source of candidates. */
export interface Source<K extends Key> {
  /** SQL of `keys` and `reached`: the first `size` candidates of a stretch, and how far these go; null: to its end. */
  readonly candidates: (window: WindowRequest<K>, parameters: Parameters) => string
  /** A term that holds for every candidate. */
  readonly proves?: Term
}

export interface WindowRequest<K extends Key> {
  readonly stretch: Stretch<K>
  readonly order: Order
  readonly size: number
}

export interface WalkedList<K extends Key, Item> {
  /** Every match is in this stretch, */
  readonly range: Stretch<K>
  /** and among the candidates of each source. */
  readonly sources: readonly Source<K>[]
  /** Set for sources whose cost does not depend on the number of candidates: larger than usual. */
  readonly windowMin?: number | undefined
  /** The first candidate of a stretch, found without going through what lies before; null: there is none. */
  readonly jump?: ((stretch: Stretch<K>, order: Order) => Promise<K | null>) | undefined
  readKey(text: string): K
  /** Those that match, in order. */
  judge(window: Candidates<K>, itemsMax: number): Promise<Judged<K, Item>>
}

export interface Candidates<K extends Key> {
  readonly keys: readonly K[]
  /** A term that holds for all of them. */
  readonly proven: Term | undefined
}

export interface Judged<K extends Key, Item> {
  readonly items: readonly Item[]
  /** What the judgement cost, in rows of a table; deriving the state of a delivery counts as `stateRows`. */
  readonly rows: number
  /** The last key that was judged, if not all were. */
  readonly reached?: K
}

export const stateRows = 10

/** The work that one call may do. A walk always takes at least one window, so every call comes further. */
export interface WalkBounds {
  /** Below this many rows the time does not matter: a page of 1,000 is full where enough matches, however busy the machine is. */
  readonly rowsMin: number
  readonly rowsMax: number
  readonly timeMs: number
}

export const usualBounds: WalkBounds = { rowsMin: 12_000, rowsMax: 24_000, timeMs: 12 }

export interface WalkRequest<K extends Key> {
  readonly order: Order
  /** The walk begins behind this key; null: at the end of the range. */
  readonly after: K | null
  /** The walk stops at this many items. */
  readonly count: number
  readonly bounds: WalkBounds
}

export interface Walked<K extends Key, Item> {
  readonly items: readonly Item[]
  /** Every match up to this key is among the items; null: every match there is. */
  readonly reached: K | null
}

const usualWindowMin = 32
const windowRowsMax = 2048
/** A jump may cost as much as this many rows. */
const jumpRows = 1000
/** After a window in which fewer than one candidate in this many matched, the walk jumps. */
const sparseShare = 16

export async function walk<K extends Key, Item>(
  reader: Reader,
  list: WalkedList<K, Item>,
  { order, after, count, bounds }: WalkRequest<K>,
): Promise<Walked<K, Item>> {
  const timeEnd = performance.now() + bounds.timeMs
  const { windowMin = usualWindowMin } = list
  const items: Item[] = []
  let reached = after
  let rows = 0
  let size = windowMin
  let mayJump = list.jump !== undefined
  for (;;) {
    const stretch = beyond(list.range, order, reached)
    if (isEmpty(stretch)) return { items, reached: null }
    const window = await nextWindow(reader, list, { stretch, order, size })
    const judged = await list.judge(window, count - items.length)
    items.push(...judged.items)
    reached = judged.reached ?? window.reached
    if (reached === null) return { items, reached }
    const windowRows = window.keys.length + judged.rows
    rows += windowRows
    const isSpent = rows >= bounds.rowsMax || (rows >= bounds.rowsMin && performance.now() >= timeEnd)
    if (items.length >= count || isSpent) return { items, reached }

    const found = judged.items.length
    if (mayJump && found < window.keys.length / sparseShare) {
      const rest = beyond(list.range, order, reached)
      const next = isEmpty(rest) ? null : ((await list.jump?.(rest, order)) ?? null)
      if (next === null) return { items, reached: null }
      mayJump = Math.abs(Number(next) - Number(reached)) > size
      reached = justBefore(next, order)
      rows += jumpRows
      size = windowMin
    } else {
      // It grows as long as windows stay cheap, but not beyond what the rest will take if matches stay as frequent.
      const cheap = (windowRowsMax * size) / Math.max(1, windowRows)
      const needed = ((count - items.length) * size) / Math.max(1, found) + 1
      size = Math.max(windowMin, Math.ceil(Math.min(4 * size, cheap, needed)))
    }
  }
}

/** Only lists along ids jump. */
function justBefore<K extends Key>(key: K, order: Order): K {
  return (Number(key) + (order === 'asc' ? -1 : 1)) as K
}

interface Window<K extends Key> extends Candidates<K> {
  readonly reached: K | null
}

async function nextWindow<K extends Key, Item>(
  reader: Reader,
  { sources, readKey }: WalkedList<K, Item>,
  request: WindowRequest<K>,
): Promise<Window<K>> {
  const parameters = new Parameters()
  const texts = sources.map(
    ({ candidates }, at) =>
      `select ${at} as source, c.keys, c.reached from (${candidates(request, parameters)}) as c`,
  )
  const { rows } = await reader.query<{ source: number; keys: string; reached: string | null }>(
    texts.join(' union all '),
    parameters.values,
  )
  const windows = rows.map(({ source, keys, reached }) => ({
    proven: sources[source]?.proves,
    keys: [...new Set(keysFrom(keys))].map(readKey),
    reached: reached === null ? null : readKey(reached),
  }))
  return windows.reduce((best, one) => (reachesFarther(one, best, request.order) ? one : best))
}

function reachesFarther<K extends Key>(one: Window<K>, other: Window<K>, order: Order): boolean {
  if (one.reached === null && other.reached === null) return one.keys.length < other.keys.length
  if (one.reached === null || other.reached === null) return one.reached === null
  return order === 'asc' ? one.reached > other.reached : one.reached < other.reached
}

/** What is left of a range behind a key. */
function beyond<K extends Key>({ above, below }: Stretch<K>, order: Order, key: K | null): Stretch<K> {
  if (key === null) return { above, below }
  if (order === 'asc') return { above: key > above ? key : above, below }
  return { above, below: key < below ? key : below }
}

function isEmpty<K extends Key>({ above, below }: Stretch<K>): boolean {
  return typeof above === 'number' ? above + 1 >= Number(below) : above >= below
}
