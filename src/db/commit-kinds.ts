import type { Statement, TransactionOptions } from './database.ts'

/** `waits`: the answer promises durability, so the commit waits until it is on disk. `none`: nothing is committed durably. */
export type Commit = 'waits' | 'none'

/** Tells statements that commit something from statements that only read. */
export class CommitKinds {
  readonly #callsOurFunction: RegExp
  readonly #ofStatement = new WeakMap<Statement, Commit>()

  constructor(schema: string) {
    this.#callsOurFunction = new RegExp(`${schema}\\.(?!clock\\(\\))\\w+\\s*\\(`)
  }

  ofStatement(statement: Statement): Commit {
    let commit = this.#ofStatement.get(statement)
    if (commit === undefined) {
      commit = this.ofText(statement.text)
      this.#ofStatement.set(statement, commit)
    }
    return commit
  }

  /** Only a plain select is sure to change nothing: a function of our schema, except the clock, may write. */
  ofText(text: string): Commit {
    if (!/^\s*(select|show)\b/i.test(text)) return 'waits'
    if (/\b(insert|update|delete|merge|nextval|pg_notify)\b/i.test(text)) return 'waits'
    return this.#callsOurFunction.test(text) ? 'waits' : 'none'
  }
}

export function commitOf({ durable = true, readOnly = false }: TransactionOptions): Commit {
  return durable && !readOnly ? 'waits' : 'none'
}
