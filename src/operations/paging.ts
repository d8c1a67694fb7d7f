import { toDetail } from '../domain/text.ts'
import { PosthornError } from '../errors.ts'

/** How a list is asked for. A cursor goes on where a page ended, however deep; an offset counts from the start. */
export interface Paging {
  readonly limit?: number
  readonly offset?: number
  readonly cursor?: string
  readonly order?: Order
}

export type Order = 'asc' | 'desc'

export interface CheckedPaging {
  readonly limit: number
  readonly offset: number
  /** The id of the last item of the page before. */
  readonly after: string | null
  readonly order: Order
}

export const limitMax = 1000
export const offsetMax = 10_000
/** A total is exact up to here. */
export const totalMax = 10_000

export interface Total {
  readonly total: number
  readonly totalIsEstimate: boolean
}

export const eventIdForm = /^\d{1,16}$/
export const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export function checkPaging(paging: Paging, idForm: RegExp): CheckedPaging {
  const { limit = 20, offset = 0, order = 'asc', cursor } = paging
  checkWhole('limit', limit, 1, limitMax)
  checkWhole('offset', offset, 0, offsetMax)
  if (order !== 'asc' && order !== 'desc') throw badOption('order', 'asc or desc', order)
  if (cursor === undefined) return { limit, offset, after: null, order }
  if (offset !== 0) throw badOption('offset', '0 with a cursor', offset)
  return { limit, offset, after: decodeCursor(cursor, order, idForm), order }
}

export function encodeCursor(order: Order, id: number | string): string {
  return Buffer.from(`${order}:${id}`).toString('base64url')
}

/** Whatever else was encoded into it, only what looks like an id reaches a statement. */
function decodeCursor(cursor: string, order: Order, idForm: RegExp): string {
  const [cursorOrder, id = ''] = Buffer.from(cursor, 'base64url').toString().split(':')
  if (!idForm.test(id)) throw badOption('cursor', 'one that a page of this list gave', cursor)
  if (cursorOrder !== order) throw badOption('order', `${cursorOrder}, as the cursor's page had`, order)
  return id
}

export function checkWhole(option: string, value: number, min: number, max: number): void {
  if (Number.isInteger(value) && value >= min && value <= max) return
  throw badOption(option, `an integer from ${min} to ${max}`, value)
}

export function checkTime(option: string, value: Date | undefined): void {
  if (value === undefined || (value instanceof Date && !Number.isNaN(value.getTime()))) return
  throw badOption(option, 'a date', value)
}

export function badOption(option: string, expected: string, value: unknown): PosthornError {
  return new PosthornError('BAD_OPTION', { option, expected, value: toDetail(value) })
}
