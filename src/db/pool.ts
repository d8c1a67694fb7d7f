import pg from 'pg'
import type { PostgresSettings } from './postgres-options.ts'
import { PrimaryClient } from './primary.ts'

const goodbyeMs = 500

export function createPool(settings: PostgresSettings, limitsAtStartup: boolean): pg.Pool {
  // The pool has one setting for two waits. Connecting should fail fast; a free connection is worth more
  // patience, so the clients are given their own limit.
  class Client extends PrimaryClient {
    constructor(config?: pg.ClientConfig) {
      super({ ...config, ...settings.client }, settings.primary)
    }

    /** A goodbye that nobody hears would keep the socket open for as long as the kernel repeats it. */
    override end(): Promise<void>
    override end(callback: (error: Error) => void): void
    override end(callback?: (error: Error) => void): Promise<void> | undefined {
      const cut = setTimeout(() => this.connection.stream.destroy(), goodbyeMs).unref()
      this.once('end', () => clearTimeout(cut))
      return super.end(callback as never) as Promise<void> | undefined
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
