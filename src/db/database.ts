/** The contract between PostgreSQL and the rest of the code. */

export interface QueryResult<Row> {
  rows: Row[]
  rowCount: number | null
}

/** Anything that runs SQL: the pool, a transaction of ours, or a caller's own transaction. */
export interface Queryable {
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<QueryResult<Row>>
}

/** A statement with a name: prepared once per connection, unless `prepared` is false. */
export interface Statement {
  readonly name: string
  readonly text: string
}

export interface Connection extends Queryable {
  /** Rows come back as arrays, in the order of the select list: cheaper on hot paths. */
  run<Row extends readonly unknown[]>(statement: Statement, values: readonly unknown[]): Promise<Row[]>
}

export interface TransactionOptions {
  /** `false` for writes that a crash may forget: leases and hints. Publishes and settles are durable. */
  readonly durable?: boolean
  /** Forces index plans: a plan that was made while a hot table was empty would scan the whole table for ever. */
  readonly indexPlans?: boolean
  /** Forces hash joins, for statements that join long lists of parameters: the planner takes such lists for short ones. */
  readonly hashJoins?: boolean
  /** The transaction changes nothing: if its connection is lost at COMMIT, nothing is in doubt. */
  readonly readOnly?: boolean
  /** The bound on each statement of this transaction, instead of the usual one; 0: none, for migrations. */
  readonly statementTimeoutMs?: number
  /** How long a statement waits for a lock. Default: as long as it may run. */
  readonly lockTimeoutMs?: number
}

export interface Database extends Connection {
  /** The schema's name, checked and quoted for use in SQL text. */
  readonly schema: string
  /**
   * Runs `work` in one transaction: commits, checks that COMMIT really committed, and runs it again
   * after a serialization failure or a deadlock. `work` must therefore be repeatable.
   */
  transaction<T>(work: (tx: Connection) => Promise<T>, options?: TransactionOptions): Promise<T>
  /** A transaction of one statement, with its settings, in one round trip. */
  once<Row extends readonly unknown[]>(
    statement: Statement,
    values: readonly unknown[],
    options: TransactionOptions,
  ): Promise<Row[]>
  /** Calls `onNotify` for each notification and `onGap` whenever some may have been missed. */
  listen(channel: string, listener: NotificationListener): Promise<Listening>
  close(options?: CloseOptions): Promise<void>
}

export interface CloseOptions {
  /** How long statements under way may still take before they are cut. Default: as long as any statement may take. */
  readonly withinMs?: number
}

export interface NotificationListener {
  onNotify(payload: string): void
  onGap(): void
}

export interface Listening {
  stop(): Promise<void>
}

/** Where the database layer logs what it did on its own. A pino logger fits. */
export interface DatabaseLog {
  info(details: object, message: string): void
  warn(details: object, message: string): void
}

/**
 * A statement whose text says `__schema__` for the schema. The name is filled in once per schema, so the text
 * stays the same object on every call, and with it the prepared plan.
 */
export function defineStatement(name: string, text: string): (db: { readonly schema: string }) => Statement {
  const filled = new Map<string, Statement>()
  return ({ schema }) => {
    let statement = filled.get(schema)
    if (statement === undefined) {
      statement = { name, text: text.replaceAll('__schema__', schema) }
      filled.set(schema, statement)
    }
    return statement
  }
}
