import { isServerError } from '../db/failure.ts'
import { PosthornError } from '../errors.ts'

/** What goes to stderr, and the exit code: 2 for what was typed or set wrongly, 1 for all other trouble. */
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
  // Nobody expected this one: where it comes from is all there is to go on.
  return { text: error.stack ?? error.message, code: 1 }
}

const wrongUsage: ReadonlySet<string> = new Set(['BAD_OPTION', 'BAD_PAYLOAD', 'PAYLOAD_TOO_LARGE'])
/** The server has found fault with what was typed, and not with who typed it or when. */
const wrongStatuses: ReadonlySet<unknown> = new Set([400, 413, 415, 422])

/** Known by its name: its class would be loaded with every command. */
function describeRefusal(error: Error & { readonly code?: unknown }): string {
  const text = `${error.code}: ${error.message}`
  return error.code === 'UNREACHABLE' ? `${text}. Start it with posthorn serve, or set POSTHORN_URL.` : text
}
