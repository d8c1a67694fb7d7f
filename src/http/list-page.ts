import type { z } from 'zod'
import type { pageQuery } from './schemas.ts'

type PageQuery = z.output<typeof pageQuery>

/** The part of a list that was asked for. */
export function pagingOf({ limit, offset, order, cursor }: PageQuery) {
  return {
    ...(limit !== undefined && { limit }),
    ...(offset !== undefined && { offset }),
    ...(order !== undefined && { order }),
    ...(cursor !== undefined && { cursor }),
  }
}

/** What every page says of itself. */
export function pageFieldsOf(
  { limit = 20, offset = 0 }: PageQuery,
  { total, nextCursor }: { total?: number; nextCursor: string | null },
): object {
  return {
    ...(total !== undefined && { total }),
    limit,
    offset,
    ...(nextCursor !== null && { next_cursor: nextCursor }),
  }
}

/** RFC 8288; relative, since a proxy may know this server by another name. */
export function linkTo(url: string, cursor: string | null): Record<string, string> {
  if (cursor === null) return {}
  const [path = '', query = ''] = url.split('?', 2)
  const next = new URLSearchParams(query)
  next.delete('offset')
  next.set('cursor', cursor)
  return { link: `<${path}?${next}>; rel="next"` }
}
