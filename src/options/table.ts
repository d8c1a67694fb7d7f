import { hostname } from 'node:os'
import { keepAuditMsMin, keepMsMax } from '../domain/retention-times.ts'
import { webhookTimeoutMsDefault, webhookTimeoutMsRange } from '../domain/subscription.ts'
import * as checks from './checks.ts'
import type { PosthornOptions } from './posthorn-options.ts'
import { flag, type Option, text, wholeNumber } from './setting.ts'

/*
 * Every option that there is. The library's options, the environment of the server and of the commands, their errors,
 * `posthorn serve --help`, docs/reference/options.md and the comments of PosthornOptions all come from here, or are
 * compared with this table by a test.
 */

const dayMs = 24 * 60 * 60 * 1000
export const pollMsMax = 60_000

/** A row for every option of the library: TypeScript refuses a missing, a stale and a mistyped one. */
type HubTable = {
  readonly [Name in keyof PosthornOptions]-?: Option<PosthornOptions[Name] | undefined>
}

/** What a hub can be told: by `createPosthorn`, else by the environment of the library, the server or a command. */
export const hubOptions = {
  database: {
    variable: 'DATABASE_URL',
    check: checks.databaseAddress,
    default: undefined,
    defaultText: 'the embedded server',
    meaning: 'a PostgreSQL server, 14 or later: a URL, which may name several hosts',
    alsoInLibrary: 'connection parameters or your own `pg.Pool`, which the hub never ends',
    seeAlso: '[failover](../guides/operating.md#failover)',
  },
  dataDirectory: {
    variable: 'POSTHORN_DATA_DIR',
    check: text,
    default: './posthorn-data',
    meaning: 'where the embedded server keeps its data',
  },
  schema: {
    variable: 'POSTHORN_SCHEMA',
    check: checks.schemaName,
    default: 'posthorn',
    meaning:
      'the schema that holds all tables: 1 to 63 of `a-z`, `0-9` and `_`, not starting with a digit or `pg_`',
  },
  shard: {
    variable: 'POSTHORN_SHARD',
    check: wholeNumber(0, 1_023),
    default: 0,
    meaning: 'the high bits of event ids, 0 to 1023; fixed once the schema has given out an id',
  },
  events: {
    // A catalogue is code.
    variable: null,
    check: checks.catalogue,
    default: undefined,
    defaultText: 'none',
    meaning: 'a catalogue made by `defineEvents`, which types and validates payloads',
  },
  requireRoute: {
    variable: 'POSTHORN_REQUIRE_ROUTE',
    check: flag,
    default: false,
    meaning: 'bury events that no subscription matches, with the reason `no_handler`',
  },
  migrate: {
    variable: 'POSTHORN_MIGRATE',
    check: flag,
    default: true,
    meaning: 'apply pending migrations when opening; `false` refuses to open while any are pending',
  },
  upkeep: {
    variable: null,
    check: flag,
    default: true,
    meaning:
      'run reclaim, expiry, retention and the other upkeep in this process; `posthorn serve` goes by POSTHORN_ROLES',
  },
  dispatcher: {
    variable: null,
    check: flag,
    default: true,
    meaning: 'send webhooks from this process; `posthorn serve` goes by POSTHORN_ROLES',
  },
  secretKey: {
    variable: 'POSTHORN_SECRET_KEY',
    check: checks.secretKeys,
    default: undefined,
    defaultText: 'one made beside the embedded database',
    meaning:
      'the key that stored secrets are encrypted with: 32 bytes as base64 or hex (`openssl rand -base64 32`), or ' +
      'several separated by commas, the newest first',
  },
  allowCidrs: {
    variable: 'POSTHORN_ALLOW_CIDRS',
    check: checks.networks,
    default: [],
    defaultText: 'none',
    meaning: 'private networks that webhooks may be sent to, such as `10.0.0.0/8, 127.0.0.1`',
  },
  webhookTimeoutMs: {
    variable: 'WEBHOOK_TIMEOUT_MS',
    check: wholeNumber(...webhookTimeoutMsRange),
    default: webhookTimeoutMsDefault,
    meaning: 'how long a webhook request may take, 100 to 120,000, unless its subscriber says otherwise',
  },
  batchSize: {
    variable: 'BATCH_SIZE',
    check: wholeNumber(1, 1_000),
    default: 20,
    meaning: 'how many deliveries of one webhook subscriber are leased at once, at most',
  },
  log: {
    variable: 'LOG_LEVEL',
    check: checks.logOption,
    default: 'warn',
    serverDefault: 'info',
    meaning: '`silent`, `fatal`, `error`, `warn`, `info`, `debug` or `trace`',
    alsoInLibrary: '`false` or your own pino logger',
  },
  workerId: {
    variable: 'POSTHORN_WORKER_ID',
    check: text,
    default: `${hostname()}:${process.pid}`,
    defaultText: '`hostname:pid`',
    meaning: 'the name of this process in the audit and in the list of workers',
  },
  pollMs: {
    variable: 'POLL_INTERVAL_MS',
    check: wholeNumber(1, pollMsMax),
    default: 100,
    meaning: 'how often the database is asked for work while there is some',
  },
  idlePollMs: {
    variable: 'POSTHORN_IDLE_POLL_MS',
    check: wholeNumber(1, pollMsMax),
    default: 1_000,
    meaning:
      'how often the database is asked for work after a while without any; never more often than while there is some',
  },
  poolMax: {
    variable: 'POSTHORN_POOL_MAX',
    check: wholeNumber(2, 1_000),
    default: 20,
    meaning: 'connections to the database, apart from one that listens',
  },
  prepared: {
    variable: 'POSTHORN_PREPARED',
    check: flag,
    default: true,
    meaning: '`false` sends no named statements, for PgBouncer before 1.21 in transaction mode',
  },
  statementTimeoutMs: {
    variable: 'POSTHORN_STATEMENT_TIMEOUT_MS',
    check: wholeNumber(100, 3_600_000),
    default: 10_000,
    meaning: 'how long one statement may run on the database server',
  },
  overdueAfterMs: {
    variable: 'POSTHORN_OVERDUE_AFTER_MS',
    check: wholeNumber(1_000, 365 * dayMs),
    default: 1_200_000,
    meaning:
      'an attempt that was picked longer ago than this and has not ended is reported as overdue; choose more than ' +
      'the `timeoutMs` of handlers',
  },
  keepFinishedMs: {
    variable: 'POSTHORN_KEEP_FINISHED_MS',
    check: wholeNumber(0, keepMsMax),
    default: 7 * dayMs,
    defaultText: '7 days',
    meaning: 'how long finished events are kept, unless their type says otherwise',
    seeAlso: '[keep or delete](../guides/keep-or-delete.md)',
  },
  keepAuditMs: {
    variable: 'POSTHORN_KEEP_AUDIT_MS',
    check: wholeNumber(keepAuditMsMin, keepMsMax),
    default: 7 * dayMs,
    defaultText: '7 days',
    meaning: 'how long the audit is kept: a day at least, and never shorter than its event',
  },
  keepDeadLettersMs: {
    variable: 'POSTHORN_KEEP_DEAD_LETTERS_MS',
    check: wholeNumber(0, keepMsMax),
    default: 90 * dayMs,
    defaultText: '90 days',
    meaning: 'how long dead letters are kept, and their events with them',
  },
  archiveDirectory: {
    variable: 'POSTHORN_ARCHIVE_DIR',
    check: text,
    default: undefined,
    defaultText: 'nowhere',
    meaning: 'where audit records are written to, as compressed JSON lines, before they are removed',
  },
} satisfies HubTable

/** What only `posthorn serve` has, and the commands that ask for its address. */
export const serverOptions = {
  port: {
    variable: 'PORT',
    check: checks.portNumber,
    default: 8080,
    meaning: 'the port of the API; `0` takes any free port',
  },
  host: {
    variable: 'HOST',
    check: text,
    default: '127.0.0.1',
    meaning: 'the address the API listens on; one that others can reach needs a key or POSTHORN_ADMIN_KEY',
    seeAlso: '[keys](keys.md)',
  },
  roles: {
    variable: 'POSTHORN_ROLES',
    check: checks.roles,
    default: checks.allRoles,
    defaultText: 'all',
    meaning: 'what this process does, separated by commas: `api`, `dispatcher`, `upkeep`',
  },
  adminKey: {
    variable: 'POSTHORN_ADMIN_KEY',
    check: checks.anyText,
    default: undefined,
    defaultText: 'none',
    meaning: 'a key that may do everything, 16 to 1,000 printable ASCII characters',
  },
} satisfies Record<string, Option<unknown>>

/** What `posthorn publish` and `posthorn listen` have, which call a running server. */
export const callerOptions = {
  url: {
    variable: 'POSTHORN_URL',
    check: checks.anyText,
    default: undefined,
    defaultText: '`http://127.0.0.1:$PORT`',
    meaning: 'the server to call',
  },
  apiKey: {
    variable: 'POSTHORN_KEY',
    check: checks.anyText,
    default: undefined,
    defaultText: 'none',
    meaning: 'the API key to call it with',
    seeAlso: '[keys](keys.md)',
  },
} satisfies Record<string, Option<unknown>>
