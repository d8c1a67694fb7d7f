import { createHash } from 'node:crypto'
import { badOption } from '../domain/bad-value.ts'
import type { NamesOf } from '../domain/known-names.ts'
import { integer } from '../domain/subscription.ts'

/** How a list is asked for. A cursor goes on where a page ended, however deep; an offset counts from the start. */
export interface Paging {
  readonly limit?: number
  readonly offset?: number
  readonly cursor?: string
  readonly order?: Order
}

export const pagingOptions: NamesOf<Paging> = { limit: true, offset: true, cursor: true, order: true }

export type Order = 'asc' | 'desc'

export interface CheckedPaging {
  readonly limit: number
  readonly offset: number
  /** The id of the last item of the page before. */
  readonly after: string | null
  readonly order: Order
  /** The cursor of a page of this list, with this order and filter, that ended with this id. */
  cursorAt(id: number | string): string
}

export const limitMax = 1000
const offsetMax = 10_000
/** A total is exact up to here. */
export const totalMax = 10_000

export interface Total {
  readonly total: number
  readonly totalIsEstimate: boolean
}

export const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Which list a cursor belongs to: its place means nothing in another one. */
type List =
  | 'events'
  | 'unfinished'
  | 'deliveries'
  | 'dlq'
  | 'lanes'
  | 'queues'
  | 'checkpoints'
  | 'recoveries'
  | 'replays'
  | 'subscribers'
  | 'workers'

/** Whatever else `paging` has is the filter, to which a cursor belongs as well: whose lanes, which queue's checkpoints. */
export function checkPaging<P extends Paging>(list: List, paging: P, idForm: RegExp): CheckedPaging {
  const { limit = 20, offset = 0, order = 'asc', cursor, ...filter } = paging
  integer('limit', limit, 1, limitMax)
  integer('offset', offset, 0, offsetMax)
  if (order !== 'asc' && order !== 'desc') throw badOption('order', 'asc or desc', order)
  const filterMark = markOf(filter)
  const cursorAt = (id: number | string) =>
    Buffer.from(`${list}:${order}:${id}:${filterMark}`).toString('base64url')
  if (cursor === undefined) return { limit, offset, after: null, order, cursorAt }
  if (offset !== 0) throw badOption('offset', '0 with a cursor', offset)
  const after = decodeCursor(cursor, { list, order, filterMark, idForm })
  return { limit, offset, after, order, cursorAt }
}

/** Tells filters apart. A filter that leaves nothing out has none. */
function markOf(filter: object): string {
  const given = Object.entries(filter).filter(([, value]) => value !== undefined)
  if (given.length === 0) return ''
  const text = JSON.stringify(given.sort(([a], [b]) => (a < b ? -1 : 1)))
  return createHash('sha256').update(text).digest('base64url').slice(0, 12)
}

interface CursorTerms {
  readonly list: List
  readonly order: Order
  readonly filterMark: string
  readonly idForm: RegExp
}

/** Whatever else was encoded into it, only what looks like an id reaches a statement. */
function decodeCursor(cursor: string, { list, order, filterMark, idForm }: CursorTerms): string {
  const [cursorList, cursorOrder, id = '', mark = ''] = Buffer.from(cursor, 'base64url').toString().split(':')
  if (cursorList !== list || !idForm.test(id))
    throw badOption('cursor', 'one that a page of this list gave', cursor)
  if (cursorOrder !== order) throw badOption('order', `${cursorOrder}, as the cursor's page had`, order)
  if (mark !== filterMark) throw badOption('cursor', 'one that a page with the same filter gave', cursor)
  return id
}

export function checkOneOf<Name extends string | undefined>(
  option: string,
  names: readonly string[],
  value: Name,
): Name {
  if (value === undefined || names.includes(value)) return value
  throw badOption(option, `one of ${names.join(', ')}`, value)
}

export function checkTime<Time extends Date | undefined>(option: string, value: Time): Time {
  if (value === undefined || (value instanceof Date && !Number.isNaN(value.getTime()))) return value
  throw badOption(option, 'a date', value)
}
