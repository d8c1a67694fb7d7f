import { queueOptionNames } from '../domain/queue-config.ts'
import { snakeCase } from '../domain/wire-name.ts'
import { type ErrorCode, PosthornError } from '../errors.ts'

/** A problem of RFC 9457, with `error` for clients that read only that field. */
export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly code: string
  readonly error: string
  readonly instance: string
  readonly [detail: string]: unknown
}

export const problemType = 'application/problem+json'

/** An error as clients see it, without anything that they should not know. */
export function toProblem(error: unknown, requestId: string): Problem {
  const { code, status, details, message } = toKnown(error, requestId)
  const name = code.toLowerCase()
  return {
    ...wireDetails(details),
    type: `/docs#${name}`,
    title: titleOf(code),
    status,
    detail: message,
    code: name,
    error: message,
    instance: requestId,
  }
}

/** Seconds to wait before a retry; undefined if a retry does not help. */
export function retryAfterSeconds({ status, code, retry_after_seconds: given }: Problem): number | undefined {
  if (typeof given === 'number') return given
  if (code === 'statement_timeout') return lateRetrySeconds
  return status === 503 || status === 504 ? 1 : undefined
}

/** By default a statement may take ten seconds, so an immediate retry would only add to the load. */
const lateRetrySeconds = 10

function toKnown(error: unknown, requestId: string): PosthornError {
  if (error instanceof PosthornError) return onWire(error)
  const { code, statusCode, message } = (error ?? {}) as {
    code?: unknown
    statusCode?: unknown
    message?: string
  }
  if (code === diskFull) return new PosthornError('DISK_FULL', {}, { cause: error })
  if (typeof code === 'string' && isOverload(code)) {
    return new PosthornError('DATABASE_UNAVAILABLE', { reason: 'it is overloaded' }, { cause: error })
  }
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') {
    const details = { header: 'Content-Type', expected: 'a media type', value: 'something else' }
    return new PosthornError('UNSUPPORTED_MEDIA_TYPE', details)
  }
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500) {
    return new PosthornError('BAD_REQUEST', { reason: message ?? 'it is malformed' })
  }
  return new PosthornError('INTERNAL', { requestId }, { cause: error })
}

/** PostgreSQL's code for a disk without room. */
const diskFull = '53100'

/** PostgreSQL's codes for a lack of resources, a lock timeout, a serialization failure and a deadlock. */
function isOverload(code: string): boolean {
  return /^53/.test(code) || code === '55P03' || code === '40001' || code === '40P01'
}

/** Options have their names in the library, so they are renamed; fields already have the name that the caller wrote. */
function onWire(error: PosthornError): PosthornError {
  // A client must not learn the address or the user of the database; the log has them.
  if (error.code === 'DATABASE_UNAVAILABLE')
    return new PosthornError(error.code, { reason: 'try again later' })
  const { option } = error.details
  if (typeof option !== 'string') return error
  const details = { ...error.details, option: wireOption(option) }
  return new PosthornError(error.code, details, { cause: error.cause })
}

/** The config of a queue has camelCase names on the wire, all but `on_full`. */
function wireOption(option: string): string {
  return option !== 'onFull' && queueOptionNames.some((name) => name === option) ? option : snakeCase(option)
}

function wireDetails(details: PosthornError['details']): Record<string, unknown> {
  return Object.fromEntries(Object.entries(details).map(([name, value]) => [snakeCase(name), value]))
}

function titleOf(code: ErrorCode): string {
  const words = code.toLowerCase().replaceAll('_', ' ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}
