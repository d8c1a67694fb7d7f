import type { WalkBounds } from '../../src/core/list-walk.ts'

/** A call searches everything, however long that takes. */
export const unbounded: WalkBounds = { rowsMin: 0, rowsMax: 1e9, timeMs: 600_000 }
/** A call takes one window and stops. */
export const oneWindow: WalkBounds = { rowsMin: 0, rowsMax: 1, timeMs: 0 }
/** No row counts, but the time is over at once. */
export const noTime: WalkBounds = { rowsMin: 0, rowsMax: 1e9, timeMs: 0 }

interface Page {
  readonly nextCursor: string | null
  readonly searchedTo?: Date | null
}

/** Every page of a list, as far as the cursors lead. */
export async function allPages<P extends Page>(
  read: (cursor: { readonly cursor?: string }) => Promise<P>,
  pagesMax = 10_000,
): Promise<P[]> {
  const pages: P[] = []
  let cursor: string | null = null
  do {
    const page: P = await read(cursor === null ? {} : { cursor })
    pages.push(page)
    cursor = page.nextCursor
  } while (cursor !== null && pages.length < pagesMax)
  return pages
}
