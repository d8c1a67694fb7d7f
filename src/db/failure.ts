import { PosthornError } from '../errors.ts'

/** What a failed statement tells about its connection and about whether it may be run again. */

interface ServerError extends Error {
  readonly severity: string
  readonly code: string
  readonly routine?: string
}

/** True when PostgreSQL itself answered. Judged by shape: a caller's pool may bring its own copy of `pg`. */
export function isServerError(error: unknown): error is ServerError {
  return error instanceof Error && 'severity' in error && 'code' in error && typeof error.code === 'string'
}

/** Serialization failure or deadlock: the server undid everything, so running it again is right. */
export function isConflict(error: unknown): boolean {
  return isServerError(error) && (error.code === '40001' || error.code === '40P01')
}

/** What it needed was locked by somebody else for longer than it would wait. */
export function isLocked(error: unknown): boolean {
  return isServerError(error) && error.code === '55P03'
}

/** Out of room, or held up: more of the same would only add to it. */
export function isOverload(error: unknown): boolean {
  return isServerError(error) && (/^53/.test(error.code) || isLocked(error))
}

/** The server has no room left to write. */
export function isDiskFull(error: unknown): boolean {
  return isServerError(error) && error.code === '53100'
}

/** True when the connection is gone, or in a state that nobody can know. */
export function breaksConnection(error: unknown): boolean {
  if (isServerError(error)) {
    return /^(08|57P0)/.test(error.code) || error.severity === 'FATAL' || error.severity === 'PANIC'
  }
  return error instanceof Error && ('syscall' in error || driverBreaks.test(error.message))
}

/**
 * True when the connection works but must not serve again: it reaches a standby since a failover, or it
 * holds a prepared statement that the server no longer has or can no longer run.
 */
export function spoilsConnection(error: unknown): boolean {
  if (!isServerError(error)) return false
  if (error.code === '0A000') return error.routine === 'RevalidateCachedQuery'
  return error.code === readOnly || error.code === '26000' || error.code === '42P05'
}

/** True when whoever accepts connections, a pooler, takes no settings with them. */
export function refusesStartupSettings(error: unknown): boolean {
  const cause = error instanceof PosthornError ? error.cause : undefined
  return cause instanceof Error && /startup parameter/i.test(cause.message)
}

/**
 * Turns a lost or read-only database into an error of ours, and a statement that took too long into another: the
 * database is there, and the same again would take as long. Every other error stays as it is.
 */
export function translate(error: unknown): unknown {
  const lost = breaksConnection(error) || (isServerError(error) && error.code === readOnly)
  if (lost) return unavailable(error)
  const isLate = isServerError(error) && error.code === queryCanceled
  return isLate ? new PosthornError('STATEMENT_TIMEOUT', {}, { cause: error }) : error
}

/** For a connection that is lost when a commit may have been on its way: nobody can know, unless nothing was sent. */
export function inDoubt(cause: unknown): PosthornError {
  const isUnsent = cause instanceof Error && /is not queryable$/.test(cause.message)
  return isUnsent ? unavailable(cause) : new PosthornError('COMMIT_UNKNOWN', {}, { cause })
}

export function unavailable(cause: unknown): PosthornError {
  return new PosthornError('DATABASE_UNAVAILABLE', { reason: reasonOf(cause) }, { cause })
}

const readOnly = '25006'
const queryCanceled = '57014'

/** `pg` gives these neither a class nor a code. */
const driverBreaks =
  /^(Connection terminated|Query read timeout|timeout expired|timeout exceeded|Client has encountered a connection error|Client was closed)/

function reasonOf(cause: unknown): string {
  // Node tries every address of a name and reports the failures in an AggregateError without a message.
  if (cause instanceof AggregateError && cause.message === '') return cause.errors.map(reasonOf).join(', ')
  return cause instanceof Error ? cause.message : String(cause)
}
