/** What the rest of the house needs from PostgreSQL, and nothing more. */

export interface QueryResult<Row> {
  rows: Row[]
  rowCount: number | null
}

/** Anything that runs SQL: the pool, a transaction of ours, or a caller's own transaction. */
export interface Queryable {
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<QueryResult<Row>>
}

/** A statement on a hot path: prepared once per connection under `name` (unless switched off). */
export interface Statement {
  readonly name: string
  readonly text: string
}

export interface Connection extends Queryable {
  /** Rows come back as arrays, in the order of the select list: cheaper on hot paths. */
  run<Row extends readonly unknown[]>(statement: Statement, values: readonly unknown[]): Promise<Row[]>
}

export interface TransactionOptions {
  /** `false` for what a crash may forget: leases and hints. Publishes and settles stay durable. */
  readonly durable?: boolean
}

export interface Database extends Connection {
  /** The schema's name, checked and quoted for use in SQL text. */
  readonly schema: string
  /**
   * Runs `work` in one transaction: commits, checks that COMMIT really committed, and runs it again
   * after a serialization failure or a deadlock. `work` must therefore be repeatable.
   */
  transaction<T>(work: (tx: Connection) => Promise<T>, options?: TransactionOptions): Promise<T>
  /** Calls `onNotify` for each notification and `onGap` whenever some may have been missed. */
  listen(channel: string, listener: NotificationListener): Promise<Listening>
  close(): Promise<void>
}

export interface NotificationListener {
  onNotify(payload: string): void
  onGap(): void
}

export interface Listening {
  stop(): Promise<void>
}
