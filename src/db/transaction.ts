import { setTimeout as delay } from 'node:timers/promises'
import { PosthornError } from '../errors.ts'
import type { Connection, QueryResult, Statement, TransactionOptions } from './database.ts'
import { breaksConnection, inDoubt, isConflict, isServerError, translate, unavailable } from './failure.ts'
import type { Loan, Submission } from './loan.ts'

const conflictRetriesMax = 5

/** Runs `attempt` again after a deadlock or a serialization failure: the server has undone all of it. */
export async function retryConflicts<T>(attempt: () => Promise<T>): Promise<T> {
  for (let retries = 0; ; retries++) {
    try {
      return await attempt()
    } catch (error) {
      if (!isConflict(error) || retries >= conflictRetriesMax) throw error
      // A random pause, so that the same two transactions do not meet again.
      await delay(Math.random() * 10 * 2 ** retries)
    }
  }
}

export interface TransactionSettings {
  /** BEGIN and the settings of this transaction: several statements in one round trip. */
  readonly begin: string
  readonly timeoutMs: number | undefined
  readonly readOnly: boolean
  submission(statement: Statement, values: readonly unknown[]): Submission
}

export interface UsualLimits {
  readonly statementTimeoutMs: number
  readonly idleInTransactionMs: number
  /** The server keeps both limits for the whole connection; otherwise each transaction sets them for itself. */
  readonly limitsHold: boolean
}

/** BEGIN and the settings of one transaction. */
export function beginWith(
  {
    durable = true,
    indexPlans = false,
    hashJoins = false,
    statementTimeoutMs,
    lockTimeoutMs,
  }: TransactionOptions,
  { statementTimeoutMs: usualMs, idleInTransactionMs, limitsHold }: UsualLimits,
): string {
  let begin = 'begin isolation level read committed'
  if (!durable) begin += '; set local synchronous_commit = off'
  // A plan that is switched off counts as very expensive, and expensive plans would be compiled, which takes longer than they run.
  if (indexPlans || hashJoins)
    begin += '; set local jit = off; set local plan_cache_mode = force_generic_plan'
  if (indexPlans) begin += '; set local enable_seqscan = off; set local enable_mergejoin = off'
  if (hashJoins) begin += '; set local enable_nestloop = off'
  if (!limitsHold) begin += `; set local idle_in_transaction_session_timeout = ${idleInTransactionMs}`
  if (!limitsHold || statementTimeoutMs !== undefined) {
    begin += `; set local statement_timeout = ${statementTimeoutMs ?? usualMs}`
  }
  if (lockTimeoutMs !== undefined) begin += `; set local lock_timeout = ${lockTimeoutMs}`
  return begin
}

export async function runTransaction<T>(
  loan: Loan,
  settings: TransactionSettings,
  work: (tx: Connection) => Promise<T>,
): Promise<T> {
  const tx = new TransactionConnection(loan, settings)
  try {
    await tx.query(settings.begin)
    const result = await work(tx)
    // The connection broke before COMMIT was sent, so nothing is committed, even if `work` swallowed the error.
    if (loan.broken !== undefined) throw unavailable(loan.broken)
    tx.end()
    await commit(loan, settings)
    return result
  } catch (error) {
    tx.end()
    await rollBack(loan, settings.timeoutMs)
    throw error
  }
}

/**
 * Sends BEGIN, the statement and COMMIT at once. If the statement fails, the COMMIT rolls back. If the connection breaks,
 * nobody can know whether the COMMIT arrived.
 */
export async function runOnce(
  loan: Loan,
  settings: TransactionSettings,
  submission: Submission,
): Promise<readonly unknown[]> {
  const { begin, timeoutMs, readOnly } = settings
  const [beginning, answer, end] = await Promise.allSettled(
    loan.together(() => [
      loan.query({ text: begin, timeoutMs }),
      loan.query({ ...submission, timeoutMs }),
      loan.query({ text: 'commit', timeoutMs }),
    ]),
  )
  const doubt = readOnly ? unavailable : inDoubt
  if (beginning.status === 'rejected') throw beforeCommit(beginning.reason, doubt)
  if (answer.status === 'rejected') throw beforeCommit(answer.reason, doubt)
  if (end.status === 'rejected') throw breaksConnection(end.reason) ? doubt(end.reason) : end.reason
  const tag = end.value.command
  if (tag !== 'COMMIT') throw new PosthornError('TRANSACTION_ROLLED_BACK', { tag })
  return answer.value.rows
}

/** The COMMIT was on its way too. If the server itself answered with an error, nothing was committed. */
function beforeCommit(reason: unknown, doubt: typeof inDoubt): unknown {
  return isServerError(reason) ? translate(reason) : doubt(reason)
}

/** COMMIT ends a failed transaction without an error: only the tag of the answer shows the rollback. */
async function commit(loan: Loan, { timeoutMs, readOnly }: TransactionSettings): Promise<void> {
  let tag: string
  try {
    tag = (await loan.query({ text: 'commit', timeoutMs })).command
  } catch (error) {
    if (!breaksConnection(error)) throw error
    throw readOnly ? unavailable(error) : inDoubt(error)
  }
  if (tag !== 'COMMIT') throw new PosthornError('TRANSACTION_ROLLED_BACK', { tag })
}

async function rollBack(loan: Loan, timeoutMs: number | undefined): Promise<void> {
  if (loan.broken !== undefined) return
  try {
    await loan.query({ text: 'rollback', timeoutMs })
  } catch (error) {
    // The caller gets the first error, not this one. The server rolls back when the connection is cut.
    loan.destroy(error as Error)
  }
}

/** Refuses statements after the transaction has ended: somebody else may use the client by then. */
class TransactionConnection implements Connection {
  readonly #loan: Loan
  readonly #settings: TransactionSettings
  #ended = false

  constructor(loan: Loan, settings: TransactionSettings) {
    this.#loan = loan
    this.#settings = settings
  }

  async query<Row = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
  ): Promise<QueryResult<Row>> {
    const { rows, rowCount } = await this.#submit({ text, values })
    return { rows: rows as Row[], rowCount }
  }

  async run<Row extends readonly unknown[]>(
    statement: Statement,
    values: readonly unknown[],
  ): Promise<Row[]> {
    const { rows } = await this.#submit(this.#settings.submission(statement, values))
    return rows as unknown as Row[]
  }

  end(): void {
    this.#ended = true
  }

  async #submit(submission: Submission) {
    if (this.#ended) throw new PosthornError('TRANSACTION_ENDED')
    try {
      return await this.#loan.query({ ...submission, timeoutMs: this.#settings.timeoutMs })
    } catch (error) {
      throw translate(error)
    }
  }
}
