import type { Statement, TransactionOptions } from './database.ts'

/** `waits`: what is done is durable when it is answered, so its commit has to wait for that. */
export type Commit = 'waits' | 'none'

/** Tells statements that commit something from those that only read. */
export class CommitKinds {
  readonly #callsOurs: RegExp
  readonly #ofStatement = new WeakMap<Statement, Commit>()

  constructor(schema: string) {
    this.#callsOurs = new RegExp(`${schema}\\.(?!clock\\(\\))\\w+\\s*\\(`)
  }

  ofStatement(statement: Statement): Commit {
    let commit = this.#ofStatement.get(statement)
    if (commit === undefined) {
      commit = this.ofText(statement.text)
      this.#ofStatement.set(statement, commit)
    }
    return commit
  }

  /** Only plain selects are sure to change nothing; a function of ours may write, but for the clock. */
  ofText(text: string): Commit {
    if (!/^\s*(select|show)\b/i.test(text)) return 'waits'
    if (/\b(insert|update|delete|merge|nextval|pg_notify)\b/i.test(text)) return 'waits'
    return this.#callsOurs.test(text) ? 'waits' : 'none'
  }
}

export function commitOf({ durable = true, readOnly = false }: TransactionOptions): Commit {
  return durable && !readOnly ? 'waits' : 'none'
}
