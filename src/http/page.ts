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

/** The same of lists that search within bounds and may end a page early. */
export function searchFieldsOf(page: {
  readonly total: number
  readonly totalIsEstimate: boolean
  readonly searchedTo: Date | null
}): object {
  return {
    total: page.total,
    ...(page.totalIsEstimate && { total_is_estimate: true }),
    ...(page.searchedTo !== null && { searched_to: page.searchedTo }),
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
