import type pg from 'pg'
import { breaksConnection, isServerError, spoilsConnection } from './failure.ts'
import { valueTypes } from './values.ts'
import type { Watch } from './watch.ts'

export interface Submission {
  readonly text: string
  readonly values?: readonly unknown[] | undefined
  readonly name?: string | undefined
  readonly rowMode?: 'array'
  /** The driver gives up on the answer after this long, and the connection with it. */
  readonly timeoutMs?: number | undefined
}

/** A client of the pool while somebody uses it. It goes back only if the next borrower can use it. */
export class Loan {
  readonly #client: pg.PoolClient
  readonly #watch: Watch | undefined
  #spoilt = false
  #broken: Error | undefined
  #isUnconfirmed = false
  /** Statements that were sent and not answered, in their order. */
  readonly #asked: string[] = []
  // A client without a listener for 'error' takes the process down when its socket breaks.
  readonly #onError = (error: Error): void => {
    this.#broken ??= error
  }

  // An operator has cancelled the wait for a synchronous standby: the commit looks like any other, but may still be lost.
  readonly #onNotice = ({ routine }: { routine?: string | undefined }): void => {
    this.#isUnconfirmed ||= routine === 'SyncRepWaitForLSN'
  }

  constructor(client: pg.PoolClient, watch?: Watch) {
    this.#client = client
    this.#watch = watch
    client.on('error', this.#onError)
    client.on('notice', this.#onNotice)
  }

  /** The pid of the server's process; behind a pooler it is one that the pooler made up. */
  get serverProcess(): number {
    return (this.#client as unknown as { processID: number }).processID
  }

  /** Why the connection is gone, if it is. */
  get broken(): Error | undefined {
    return this.#broken
  }

  /** The client sends a statement before the last one is answered. The clients of an application's pool seldom do. */
  get isPipelined(): boolean {
    return (this.#client as { readonly pipeline?: boolean }).pipeline === true
  }

  /** The name, or the beginning, of the statement that the server has not answered yet. */
  get underWay(): string | undefined {
    return this.#asked[0]
  }

  /** The result of the last statement in the text. Throws the driver's own error. */
  async query(submission: Submission): Promise<pg.QueryResult> {
    const { text, values, name, rowMode, timeoutMs } = submission
    const config = { text, values, name, rowMode, types: valueTypes, query_timeout: timeoutMs }
    this.#watch?.begin()
    this.#asked.push(name ?? text.slice(0, 100))
    try {
      const result = (await this.#client.query(config as unknown as pg.QueryConfig)) as
        | pg.QueryResult
        | pg.QueryResult[]
      this.#watch?.heard()
      if (this.#isUnconfirmed) throw new Error('Connection terminated: no synchronous standby confirmed it')
      return Array.isArray(result) ? (result.at(-1) as pg.QueryResult) : result
    } catch (error) {
      if (isServerError(error)) this.#watch?.heard()
      if (breaksConnection(error)) this.#broken ??= error as Error
      else if (spoilsConnection(error)) this.#spoilt = true
      throw error
    } finally {
      this.#asked.shift()
      this.#watch?.end()
    }
  }

  /** What `submit` asks for leaves in one write: a write costs as much as the rest of a small statement. */
  together<T>(submit: () => T): T {
    const { stream } = this.#client.connection
    stream.cork()
    try {
      return submit()
    } finally {
      stream.uncork()
    }
  }

  release(): void {
    this.#client.release(this.#broken ?? this.#spoilt)
    this.#client.off('error', this.#onError)
    this.#client.off('notice', this.#onNotice)
  }

  /** Cuts the connection while it is in use. */
  destroy(reason: Error): void {
    this.#broken ??= reason
    this.#client.connection.stream.destroy()
  }
}
