import { within } from '../domain/within.ts'
import { PosthornError } from '../errors.ts'

/** How long a question waits for the database at most. */
const waitMsMax = 1_500
const freshMs = 1_000

/**
 * Tells why the hub cannot do its work; undefined: it can. The database is asked at most once a second, however many want to
 * know. `ready` throws unless it can.
 */
export function watchReadiness(ready: () => Promise<void>): () => Promise<string | undefined> {
  let last: { readonly askedAt: number; readonly trouble: Promise<string | undefined> } | undefined
  return () => {
    const now = performance.now()
    if (last === undefined || now - last.askedAt > freshMs) last = { askedAt: now, trouble: troubleOf(ready) }
    return last.trouble
  }
}

async function troubleOf(ready: () => Promise<void>): Promise<string | undefined> {
  const late = new PosthornError('DATABASE_UNAVAILABLE', { reason: `it took more than ${waitMsMax} ms` })
  try {
    await within(ready(), waitMsMax, late)
    return undefined
  } catch (error) {
    return error instanceof PosthornError ? error.code.toLowerCase() : 'database_unavailable'
  }
}
