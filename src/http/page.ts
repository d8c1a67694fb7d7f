import type { z } from 'zod'
import type { pageQuery } from './schemas.ts'

export interface Page<Item> {
  readonly items: readonly Item[]
  /** What every page says of itself. */
  readonly fields: { readonly total: number; readonly limit: number; readonly offset: number }
}

/** The part of a list that was asked for. */
export function pageOf<Item>(
  all: readonly Item[],
  { limit = 20, offset = 0 }: z.output<typeof pageQuery>,
): Page<Item> {
  return { items: all.slice(offset, offset + limit), fields: { total: all.length, limit, offset } }
}
