import type pg from 'pg'
import type { Catalogue } from '../domain/catalogue.ts'
import type { LogOption } from '../observe/log.ts'

/** What `createPosthorn` takes. Editors show these comments, so a test compares them with the table of options. */
export interface PosthornOptions<C extends Catalogue = Catalogue> {
  /**
   * A PostgreSQL server, 14 or later: a URL, which may name several hosts; in the library also connection parameters or
   * your own `pg.Pool`, which the hub never ends (DATABASE_URL). Default: the embedded server.
   */
  readonly database?: string | pg.PoolConfig | pg.Pool | undefined
  /** Where the embedded server keeps its data (POSTHORN_DATA_DIR). Default: `./posthorn-data`. */
  readonly dataDirectory?: string
  /**
   * The schema that holds all tables: 1 to 63 of `a-z`, `0-9` and `_`, not starting with a digit or `pg_`
   * (POSTHORN_SCHEMA). Default: `posthorn`.
   */
  readonly schema?: string
  /**
   * The high bits of event ids, 0 to 1023; fixed once the schema has given out an id (POSTHORN_SHARD). Default: `0`.
   */
  readonly shard?: number
  /** A catalogue made by `defineEvents`, which types and validates payloads. Default: none. */
  readonly events?: C
  /**
   * Bury events that no subscription matches, with the reason `no_handler` (POSTHORN_REQUIRE_ROUTE). Default: `false`.
   */
  readonly requireRoute?: boolean
  /**
   * Apply pending migrations when opening; `false` refuses to open while any are pending (POSTHORN_MIGRATE). Default:
   * `true`.
   */
  readonly migrate?: boolean
  /**
   * Run reclaim, expiry, retention and the other upkeep in this process; `posthorn serve` goes by POSTHORN_ROLES.
   * Default: `true`.
   */
  readonly upkeep?: boolean
  /** Send webhooks from this process; `posthorn serve` goes by POSTHORN_ROLES. Default: `true`. */
  readonly dispatcher?: boolean
  /**
   * The key that stored secrets are encrypted with: 32 bytes as base64 or hex (`openssl rand -base64 32`), or several
   * separated by commas, the newest first (POSTHORN_SECRET_KEY). Default: one made beside the embedded database.
   */
  readonly secretKey?: string
  /**
   * Private networks that webhooks may be sent to, such as `10.0.0.0/8, 127.0.0.1` (POSTHORN_ALLOW_CIDRS). Default:
   * none.
   */
  readonly allowCidrs?: string | readonly string[]
  /**
   * How long a webhook request may take, 100 to 120,000, unless its subscriber says otherwise (WEBHOOK_TIMEOUT_MS).
   * Default: `10000`.
   */
  readonly webhookTimeoutMs?: number
  /**
   * How many deliveries of one webhook subscriber are leased at once, at most (BATCH_SIZE). Default: `20`.
   */
  readonly batchSize?: number
  /**
   * `silent`, `fatal`, `error`, `warn`, `info`, `debug` or `trace`; in the library also `false` or your own pino logger
   * (LOG_LEVEL). Default: `warn`, of `posthorn serve` `info`.
   */
  readonly log?: LogOption
  /**
   * The name of this process in the audit and in the list of workers (POSTHORN_WORKER_ID). Default: `hostname:pid`.
   */
  readonly workerId?: string
  /** How often the database is asked for work while there is some (POLL_INTERVAL_MS). Default: `100`. */
  readonly pollMs?: number
  /**
   * How often the database is asked for work after a while without any; never more often than while there is some
   * (POSTHORN_IDLE_POLL_MS). Default: `1000`.
   */
  readonly idlePollMs?: number
  /** Connections to the database, apart from one that listens (POSTHORN_POOL_MAX). Default: `20`. */
  readonly poolMax?: number
  /**
   * `false` sends no named statements, for PgBouncer before 1.21 in transaction mode (POSTHORN_PREPARED). Default:
   * `true`.
   */
  readonly prepared?: boolean
  /** How long one statement may run on the database server (POSTHORN_STATEMENT_TIMEOUT_MS). Default: `10000`. */
  readonly statementTimeoutMs?: number
  /**
   * An attempt that was picked longer ago than this and has not ended is reported as overdue; choose more than the
   * `timeoutMs` of handlers (POSTHORN_OVERDUE_AFTER_MS). Default: `1200000`.
   */
  readonly overdueAfterMs?: number
  /**
   * How long finished events are kept, unless their type says otherwise (POSTHORN_KEEP_FINISHED_MS). Default: 7 days.
   */
  readonly keepFinishedMs?: number
  /**
   * How long the audit is kept: a day at least, and never shorter than its event (POSTHORN_KEEP_AUDIT_MS). Default:
   * 7 days.
   */
  readonly keepAuditMs?: number
  /** How long dead letters are kept, and their events with them (POSTHORN_KEEP_DEAD_LETTERS_MS). Default: 90 days. */
  readonly keepDeadLettersMs?: number
  /**
   * Where audit records are written to, as compressed JSON lines, before they are removed (POSTHORN_ARCHIVE_DIR).
   * Default: nowhere.
   */
  readonly archiveDirectory?: string
}
