import { isServerError } from '../db/failure.ts'
import { PosthornError } from '../errors.ts'

/** The text for stderr, and the exit code: 2 for wrong arguments or settings, 1 for all other errors. */
export function describeFailure(error: unknown): { readonly text: string; readonly code: 1 | 2 } {
  if (!(error instanceof Error)) return { text: String(error), code: 1 }
  if (error instanceof PosthornError) {
    return { text: `${error.code}: ${error.message}`, code: wrongUsage.has(error.code) ? 2 : 1 }
  }
  if (error.name === 'PosthornHttpError') {
    const code = 'status' in error && wrongStatuses.has(error.status) ? 2 : 1
    return { text: describeRefusal(error), code }
  }
  if (isServerError(error)) return { text: `PostgreSQL ${error.code}: ${error.message}`, code: 1 }
  if ('syscall' in error) return { text: error.message, code: 1 }
  // A bug: the stack shows where.
  return { text: error.stack ?? error.message, code: 1 }
}

const wrongUsage: ReadonlySet<string> = new Set(['BAD_OPTION', 'BAD_PAYLOAD', 'PAYLOAD_TOO_LARGE'])
/** The server refused what was typed, and not who typed it or when. */
const wrongStatuses: ReadonlySet<unknown> = new Set([400, 413, 415, 422])

/** Recognised by its name, because importing its class would load the client with every command. */
function describeRefusal(error: Error & { readonly code?: unknown }): string {
  const text = `${error.code}: ${error.message}`
  return error.code === 'UNREACHABLE' ? `${text}. Start it with posthorn serve, or set POSTHORN_URL.` : text
}
