import pg from 'pg'
import type { PostgresSettings } from './postgres-options.ts'
import { PrimaryClient } from './primary.ts'

const goodbyeMs = 500

export function createPool(settings: PostgresSettings, limitsAtStartup: boolean): pg.Pool {
  // The pool has one setting for two waits, for a free connection and for a new one. Connecting should fail faster, so
  // clients have a limit of their own.
  class Client extends PrimaryClient {
    constructor(config?: pg.ClientConfig) {
      super({ ...config, ...settings.client }, settings.primary)
    }

    /** Cuts the connection if the server does not answer: otherwise the socket stays open while the kernel repeats the goodbye. */
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
    // BEGIN, a statement and COMMIT take one round trip instead of three.
    pipeline: true,
    connectionTimeoutMillis: settings.checkoutTimeoutMs,
    Client,
  })
}
