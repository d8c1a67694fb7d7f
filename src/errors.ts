/** The one table of errors: what a user can get, what it means over HTTP, and what it says. */
const errors = {
  BAD_OPTION: { status: 422, message: 'Expected {option} to be {expected}, got {value}.' },
  BAD_EVENT: { status: 422, message: 'Expected {field} to be {expected}, got {value}.' },
  BAD_PAYLOAD: { status: 400, message: 'The payload is not JSON that can be stored: {reason}.' },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    message: 'The payload has {bytes} bytes, more than {bytesMax}: store it elsewhere and send a URI.',
  },
  SCHEMA_MISMATCH: { status: 422, message: 'The payload of {type} does not fit its schema: {issues}.' },
  IDEMPOTENCY_MISMATCH: {
    status: 422,
    message: 'The idempotency key {key} was used before for another event (id {eventId}).',
  },
  NO_ROUTE: { status: 422, message: 'No subscription wants events of type {type}.' },
  NOT_FOUND: { status: 404, message: 'There is no {what} {id}.' },
  LEASE_LOST: {
    status: 409,
    message: 'The lease on event {eventId} is no longer held: it is {state} now.',
  },
  AMBIGUOUS_LEASE: {
    status: 409,
    message: 'Worker {worker} holds several leases on event {eventId}: name one by its token.',
  },
  ALREADY_SETTLED: { status: 409, message: 'The attempt on event {eventId} was already settled as {outcome}.' },
  NOT_BLOCKED: { status: 409, message: 'The lane {key} of {subscription} is not blocked.' },
  STOPPED: { status: 503, message: 'This hub is stopped.' },
  DATABASE_UNAVAILABLE: { status: 503, message: 'The database cannot be reached: {reason}.' },
  COMMIT_UNKNOWN: {
    status: 504,
    message: 'The connection broke during COMMIT, so its outcome is unknown: try again with the same idempotency key.',
  },
  TRANSACTION_ROLLED_BACK: {
    status: 500,
    message: 'COMMIT was answered with ROLLBACK: an earlier statement of the transaction had failed.',
  },
  SCHEMA_NEWER: {
    status: 500,
    message: 'The schema {schema} is at migration {found}, newer than the {known} this version knows: upgrade posthorn.',
  },
  SCHEMA_MISSING: { status: 500, message: 'The schema {schema} lacks migrations {missing}: run the migrations first.' },
  SERVER_TOO_OLD: { status: 500, message: 'PostgreSQL {version} is too old: 14 or later is needed.' },
  EMBEDDED_UNAVAILABLE: { status: 500, message: 'No PostgreSQL server could be started: {reason}.' },
  DATA_DIRECTORY_IN_USE: { status: 500, message: 'The data directory {directory} is in use by process {pid}: {reason}.' },
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

function fill(template: string, details: ErrorDetails): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => show(details[name]))
}

/** Values in messages are cut, so that a megabyte of bad input does not become a megabyte of log. */
function show(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}
