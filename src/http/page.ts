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

/** RFC 8288; relative, since a proxy may know this server by another name. */
export function linkTo(url: string, cursor: string): Record<string, string> {
  const [path = '', query = ''] = url.split('?', 2)
  const next = new URLSearchParams(query)
  next.delete('offset')
  next.set('cursor', cursor)
  return { link: `<${path}?${next}>; rel="next"` }
}
