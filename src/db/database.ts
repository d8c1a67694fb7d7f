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
  /** Pins index plans: a plan made while a hot table was empty would go on scanning all of it. */
  readonly indexPlans?: boolean
  /** Pins hash joins, for statements that join long lists of parameters, which the planner takes for short ones. */
  readonly hashJoins?: boolean
  /** It changes nothing, so that a connection which is lost at its end leaves nothing in doubt. */
  readonly readOnly?: boolean
  /** Bounds each statement of this transaction instead of the usual bound; 0 lifts it, for migrations. */
  readonly statementTimeoutMs?: number
  /** How long to wait for what somebody else has locked; else as long as for anything. */
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

/** Where the database layer tells what it did on its own. A pino logger fits. */
export interface DatabaseLog {
  info(details: object, message: string): void
  warn(details: object, message: string): void
}

/**
 * A statement whose text says `__schema__` for the schema. It is filled in once per schema, so that the
 * text, and with it the prepared plan, stays the same object on every call.
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
