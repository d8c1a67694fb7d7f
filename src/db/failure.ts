import { PosthornError } from '../errors.ts'

/** What the error of a statement says about its connection, and whether the statement may run again. */

interface ServerError extends Error {
  readonly severity: string
  readonly code: string
  readonly routine?: string
}

/** True if PostgreSQL itself answered. Judged by its shape: a caller's pool may bring its own copy of `pg`. */
export function isServerError(error: unknown): error is ServerError {
  return error instanceof Error && 'severity' in error && 'code' in error && typeof error.code === 'string'
}

/** Serialization failure or deadlock: the server undid everything, so running it again is right. */
export function isConflict(error: unknown): boolean {
  return isServerError(error) && (error.code === '40001' || error.code === '40P01')
}

/** Another transaction held a lock for longer than the statement would wait. */
export function isLocked(error: unknown): boolean {
  return isServerError(error) && error.code === '55P03'
}

/** The server is out of resources or held up by locks: more statements would make it worse. */
export function isOverload(error: unknown): boolean {
  return isServerError(error) && (/^53/.test(error.code) || isLocked(error))
}

/** The server has no room left to write. */
export function isDiskFull(error: unknown): boolean {
  return isServerError(error) && error.code === '53100'
}

/** True if the connection is gone, or its state is unknown. */
export function breaksConnection(error: unknown): boolean {
  if (isServerError(error)) {
    return /^(08|57P0)/.test(error.code) || error.severity === 'FATAL' || error.severity === 'PANIC'
  }
  return error instanceof Error && ('syscall' in error || driverBreaks.test(error.message))
}

/**
 * True if the connection works but must not be used again: since a failover its server is a standby, or it
 * holds a prepared statement that the server no longer has or can no longer run.
 */
export function spoilsConnection(error: unknown): boolean {
  if (!isServerError(error)) return false
  if (error.code === '0A000') return error.routine === 'RevalidateCachedQuery'
  return error.code === readOnly || error.code === '26000' || error.code === '42P05'
}

/** True if a pooler accepted the connection but refuses settings at its start. */
export function refusesStartupSettings(error: unknown): boolean {
  const cause = error instanceof PosthornError ? error.cause : undefined
  return cause instanceof Error && /startup parameter/i.test(cause.message)
}

/**
 * Turns a lost or read-only database into DATABASE_UNAVAILABLE, and a statement that took too long into
 * STATEMENT_TIMEOUT: there the database answers, and a repeat would take as long. Every other error stays as it is.
 */
export function translate(error: unknown): unknown {
  const lost = breaksConnection(error) || (isServerError(error) && error.code === readOnly)
  if (lost) return unavailable(error)
  const isLate = isServerError(error) && error.code === queryCanceled
  return isLate ? new PosthornError('STATEMENT_TIMEOUT', {}, { cause: error }) : error
}

/** For a connection that was lost while a commit may have been on its way. Its fate is unknown, unless nothing was sent. */
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
