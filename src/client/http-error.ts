export interface HttpErrorFields {
  readonly status: number
  readonly code: string
  readonly message: string
  readonly problem?: Problem
  readonly retryAfterMs?: number | null
  readonly cause?: unknown
}

/** The body of a refused request, as the server wrote it: RFC 9457, names in snake_case. */
export type Problem = Readonly<Record<string, unknown>>

/** A request that was refused, or that nobody answered. */
export class PosthornHttpError extends Error {
  override readonly name = 'PosthornHttpError'
  /** 0 when there was no answer. */
  readonly status: number
  /** As in the table of errors, `LEASE_LOST` and so on; `UNREACHABLE` when there was no answer. */
  readonly code: string
  readonly problem: Problem
  /** How long to wait before a retry, if the server said so; else null. */
  readonly retryAfterMs: number | null

  constructor({ status, code, message, problem = {}, retryAfterMs = null, cause }: HttpErrorFields) {
    super(message, cause === undefined ? undefined : { cause })
    this.status = status
    this.code = code
    this.problem = problem
    this.retryAfterMs = retryAfterMs
  }
}

/** The error for a refused request. A proxy may have answered with something other than JSON. */
export function refusal(status: number, headers: Headers, text: string): PosthornHttpError {
  const problem = readProblem(text)
  const code = typeof problem.code === 'string' ? problem.code.toUpperCase() : `HTTP_${status}`
  const said = problem.detail ?? problem.error ?? problem.title
  const message = typeof said === 'string' ? said : `The server answered ${status}.`
  return new PosthornHttpError({ status, code, message, problem, retryAfterMs: retryAfterMs(headers) })
}

export function unreachable(url: string, cause: unknown): PosthornHttpError {
  const why = cause instanceof Error ? (innermost(cause).message ?? cause.message) : String(cause)
  const message = `No answer from ${url}: ${why}`
  return new PosthornHttpError({ status: 0, code: 'UNREACHABLE', message, cause })
}

export function badAnswer(status: number, cause: unknown): PosthornHttpError {
  const message = `The server answered ${status} with something that is no answer of Posthorn’s.`
  return new PosthornHttpError({ status, code: 'BAD_ANSWER', message, cause })
}

function readProblem(text: string): Problem {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Problem) : {}
  } catch {
    return {}
  }
}

/** Reads `Retry-After`: seconds, or a time. A time is compared with the server's clock, since clocks differ. */
function retryAfterMs(headers: Headers): number | null {
  const value = headers.get('retry-after')
  if (value === null) return null
  const ms = /^\d+$/.test(value)
    ? Number(value) * 1000
    : Date.parse(value) - Date.parse(headers.get('date') ?? '')
  return Number.isNaN(ms) ? null : Math.max(0, ms)
}

/** The message of fetch is only `fetch failed`; the cause says why. */
function innermost(error: Error): Error {
  const { cause } = error
  if (cause instanceof AggregateError && cause.errors[0] instanceof Error) return cause.errors[0]
  return cause instanceof Error ? innermost(cause) : error
}
