import { type Key, usualBounds, type WalkBounds, type WalkedList, walk } from './list-walk.ts'
import { type CheckedPaging, type Order, type Total, totalMax } from './paging.ts'
import type { Reader } from './reader.ts'

/** A list with a filter counts its matches up to here, and extrapolates beyond. */
const filteredTotalMax = 1000

export interface PagedList<K extends Key, Item> extends WalkedList<K, Item> {
  /** The page begins behind this key; null: at the end of the range. */
  readonly after: K | null
  /** Without a filter every candidate matches. */
  readonly isFiltered: boolean
  /** The size of the list without its filter: SQL of the count, which is null if counting would take long, and SQL of a guess. */
  readonly counted: string
  readonly stored: string
  /** The first and the last key in the range, as numbers over which the items are spread. */
  ends(): Promise<readonly [first: number, last: number]>
  numberOf(key: K): number
  /** When the last item up to this key was created. */
  timeAt(key: K): Promise<Date | null>
  /** The place of an item, for a cursor. */
  placeOf(item: Item): string
}

/** Where a page begins. A cursor carries it as `place/passed/skip`. */
export interface PageStart {
  readonly place: string | null
  /** How many matches lie before: on earlier pages, or left out by an offset. */
  readonly passed: number
  /** How many matches an offset still leaves out. */
  readonly skip: number
}

export interface SearchedTo {
  /**
   * Set if the call stopped before the page was full: it has searched items created up to this time, and the cursor goes on from
   * there. Null: the page is full, or nothing more matches.
   */
  readonly searchedTo: Date | null
}

export interface ListPage<Item> extends Total, SearchedTo {
  readonly items: readonly Item[]
  readonly nextCursor: string | null
}

/** The form of a cursor's text, given the form of the place in it. */
export function startForm(placeForm: string): RegExp {
  return new RegExp(`^${placeForm}(/\\d{1,9}/\\d{1,5})?$`, 'i')
}

export function startOf({ after, offset }: CheckedPaging): PageStart {
  if (after === null) return { place: null, passed: 0, skip: offset }
  const [place = '', passed = '0', skip = '0'] = after.split('/')
  return { place, passed: Number(passed), skip: Number(skip) }
}

export async function readListPage<K extends Key, Item>(
  reader: Reader,
  list: PagedList<K, Item>,
  paging: CheckedPaging,
  bounds: WalkBounds = usualBounds,
): Promise<ListPage<Item>> {
  const { limit, order, cursorAt } = paging
  const { passed, skip } = startOf(paging)
  const count = Math.max(skip + limit + 1, list.isFiltered ? filteredTotalMax + 1 - passed : 0)
  const { items, reached } = await walk(reader, list, { order, after: list.after, count, bounds })
  const page = items.slice(skip, skip + limit)
  const last = page.at(-1)
  let nextCursor: string | null = null
  if (last !== undefined && items.length > skip + limit) {
    nextCursor = cursorAt(`${list.placeOf(last)}/${passed + skip + limit}/0`)
  } else if (reached !== null) {
    nextCursor = cursorAt(`${reached}/${passed + items.length}/${Math.max(0, skip - items.length)}`)
  }
  const isShort = page.length < limit && reached !== null
  return {
    items: page,
    ...(await totalOf(reader, list, { order, reached, found: items.length, passed })),
    nextCursor,
    searchedTo: isShort ? await list.timeAt(reached) : null,
  }
}

interface Found<K extends Key> {
  readonly order: Order
  readonly reached: K | null
  readonly found: number
  readonly passed: number
}

/** Extrapolates: the rest of the range has the same share of matches. Never more than the list has without its filter. */
async function totalOf<K extends Key, Item>(
  reader: Reader,
  list: PagedList<K, Item>,
  { order, reached, found, passed }: Found<K>,
): Promise<Total> {
  const known = passed + found
  if (list.isFiltered && reached === null) return { total: known, totalIsEstimate: false }
  const counted = await numberFrom(reader, list.counted)
  const all = counted ?? Math.round((await numberFrom(reader, list.stored)) ?? 0)
  if (!list.isFiltered || reached === null) return { total: all, totalIsEstimate: counted === null }
  const ends = await list.ends()
  const [from, to] = order === 'asc' ? ends : [ends[1], ends[0]]
  const at = list.numberOf(reached)
  const begin = list.after === null ? from : list.numberOf(list.after)
  const rest = (found * Math.abs(to - at)) / Math.max(1, Math.abs(at - begin))
  return { total: Math.max(known, Math.min(all, Math.round(known + rest))), totalIsEstimate: true }
}

async function numberFrom(reader: Reader, query: string): Promise<number | null> {
  const { rows } = await reader.query<{ number: number | null }>(`select (${query})::float8 as number`)
  return rows[0]?.number ?? null
}

/** SQL that counts the rows of `query`; null: there are more than a total counts. */
export function countedRows(query: string): string {
  return `select case when count(*) <= ${totalMax} then count(*) end from (${query} limit ${totalMax + 1}) as c`
}

/** SQL that estimates the rows of a large table or index, from the last vacuum or analyze and its size now. */
export function storedRows(relation: string): string {
  const pages = `pg_relation_size(c.oid) / current_setting('block_size')::int`
  return `select greatest(${totalMax + 1}, c.reltuples / greatest(c.relpages, 1) * (${pages}))
    from pg_class c where c.oid = '__schema__.${relation}'::regclass`
}
