import { setTimeout as delay } from 'node:timers/promises'
import { PosthornError } from '../errors.ts'
import type { Connection, QueryResult, Statement } from './database.ts'
import { breaksConnection, isConflict, translate, unavailable } from './failure.ts'
import type { Loan, Submission } from './loan.ts'

const conflictRetriesMax = 5

/** Runs `attempt` again after a deadlock or a serialization failure, of which nothing remains on the server. */
export async function retryConflicts<T>(attempt: () => Promise<T>): Promise<T> {
  for (let retries = 0; ; retries++) {
    try {
      return await attempt()
    } catch (error) {
      if (!isConflict(error) || retries >= conflictRetriesMax) throw error
      // Jitter, so that two transactions that met do not meet again.
      await delay(Math.random() * 10 * 2 ** retries)
    }
  }
}

export interface TransactionSettings {
  /** BEGIN and the settings of this transaction: several statements in one round trip. */
  readonly begin: string
  readonly timeoutMs: number | undefined
  submission(statement: Statement, values: readonly unknown[]): Submission
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
    // A connection that broke before COMMIT was sent has committed nothing, even if `work` did not mind.
    if (loan.broken !== undefined) throw unavailable(loan.broken)
    tx.end()
    await commit(loan, settings.timeoutMs)
    return result
  } catch (error) {
    tx.end()
    await rollBack(loan, settings.timeoutMs)
    throw error
  }
}

/**
 * Sends BEGIN, the statement and COMMIT at once. If the statement fails, the COMMIT behind it only rolls back;
 * if the connection breaks, nobody can know whether the COMMIT arrived.
 */
export async function runOnce(
  loan: Loan,
  settings: TransactionSettings,
  submission: Submission,
): Promise<readonly unknown[]> {
  const { begin, timeoutMs } = settings
  const begun = loan.query({ text: begin, timeoutMs })
  const answered = loan.query({ ...submission, timeoutMs })
  const committed = loan.query({ text: 'commit', timeoutMs })
  const [beginning, answer, end] = await Promise.allSettled([begun, answered, committed])
  if (answer.status === 'rejected' && !breaksConnection(answer.reason)) throw answer.reason
  if (beginning.status === 'rejected') throw translate(beginning.reason)
  if (answer.status === 'rejected' || end.status === 'rejected') {
    const cause = answer.status === 'rejected' ? answer.reason : (end as PromiseRejectedResult).reason
    throw new PosthornError('COMMIT_UNKNOWN', {}, { cause })
  }
  const tag = end.value.command
  if (tag !== 'COMMIT') throw new PosthornError('TRANSACTION_ROLLED_BACK', { tag })
  return answer.value.rows
}

/** A failed transaction is ended by COMMIT without an error: only the tag tells. */
async function commit(loan: Loan, timeoutMs: number | undefined): Promise<void> {
  let tag: string
  try {
    tag = (await loan.query({ text: 'commit', timeoutMs })).command
  } catch (error) {
    throw breaksConnection(error) ? new PosthornError('COMMIT_UNKNOWN', {}, { cause: error }) : error
  }
  if (tag !== 'COMMIT') throw new PosthornError('TRANSACTION_ROLLED_BACK', { tag })
}

async function rollBack(loan: Loan, timeoutMs: number | undefined): Promise<void> {
  if (loan.broken !== undefined) return
  try {
    await loan.query({ text: 'rollback', timeoutMs })
  } catch (error) {
    // The caller needs the first error, not this one. The server undoes what a cut connection left open.
    loan.destroy(error as Error)
  }
}

/** Refuses to work once the transaction is over: the client may serve somebody else by then. */
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
