import pg from 'pg'
import type { PostgresSettings } from './postgres-options.ts'

export function createPool(settings: PostgresSettings, limitsAtStartup: boolean): pg.Pool {
  // The pool has one setting for two waits. Connecting should fail fast; a free connection is worth more
  // patience, so the clients are given their own limit.
  class Client extends pg.Client {
    constructor(config?: pg.ClientConfig) {
      super({ ...config, ...settings.client })
    }
  }
  const limits = {
    statement_timeout: settings.statementTimeoutMs,
    idle_in_transaction_session_timeout: settings.idleInTransactionMs,
  }
  return new pg.Pool({
    ...settings.client,
    ...(limitsAtStartup ? limits : {}),
    max: settings.poolMax,
    // A transaction of one statement travels at once instead of in three round trips.
    pipeline: true,
    connectionTimeoutMillis: settings.checkoutTimeoutMs,
    Client,
  })
}
