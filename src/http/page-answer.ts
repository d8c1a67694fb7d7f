import type { z } from 'zod'
import { given } from './given.ts'
import type { Answer, RouteResponse } from './route.ts'
import type { pageQuery } from './schemas.ts'

type PageQuery = z.output<typeof pageQuery>

/** How a route that lists documents its answer. */
export function pageResponse(schema: z.ZodType, description: string): RouteResponse {
  return { description, schema, headers: { link: 'The next page, as `rel="next"`' } }
}

/** The paging options of a request, as the hub's lists take them. */
export function pagingOf({ limit, offset, order, cursor }: PageQuery) {
  return given({ limit, offset, order, cursor })
}

interface Page {
  readonly total?: number
  readonly totalIsEstimate?: boolean
  /** How far a call came that ended early; null: it did not. */
  readonly searchedTo?: Date | null
  readonly nextCursor: string | null
}

/** The fields that every page has beside its items. */
export function pageFieldsOf({ limit = 20, offset = 0 }: Omit<PageQuery, 'order'>, page: Page): object {
  const { total, totalIsEstimate = false, searchedTo = null, nextCursor } = page
  return {
    ...(total !== undefined && { total }),
    ...(totalIsEstimate && { total_is_estimate: true }),
    limit,
    offset,
    ...(nextCursor !== null && { next_cursor: nextCursor }),
    ...(searchedTo !== null && { searched_to: searchedTo }),
  }
}

/** A page of items, with the link to the next page. */
export function pageAnswer(
  items: object,
  { query, url, page }: { query: PageQuery; url: string; page: Page },
): Answer {
  return {
    status: 200,
    json: { ...items, ...pageFieldsOf(query, page) },
    headers: linkTo(url, page.nextCursor),
  }
}

/** The same of items that are JSON texts already. `fields` are those beside the items. */
export function textPageAnswer(
  name: string,
  texts: readonly string[],
  { fields, url, nextCursor }: { fields: object; url: string; nextCursor: string | null },
): Answer {
  const text = `{"${name}":[${texts.join(',')}],${JSON.stringify(fields).slice(1)}`
  return { status: 200, text, headers: linkTo(url, nextCursor) }
}

/** The Link header of RFC 8288. The link is relative, since a proxy may know this server by another name. */
export function linkTo(url: string, cursor: string | null): Record<string, string> {
  if (cursor === null) return {}
  const [path = '', query = ''] = url.split('?', 2)
  const next = new URLSearchParams(query)
  next.delete('offset')
  next.set('cursor', cursor)
  return { link: `<${path}?${next}>; rel="next"` }
}
