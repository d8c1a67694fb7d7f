import { Connection } from './connection.ts'
import type { Connector } from './connector.ts'
import type { Deadline } from './deadline.ts'
import { SendError } from './send-failure.ts'

export interface ConnectionPoolOptions {
  readonly url: URL
  readonly connector: Connector
  readonly connectionsMax: number
  /** The pool has no connection left. */
  readonly onEmpty: () => void
}

/**
 * The connections of one subscriber to one endpoint. undici's own pool does not say whether a connection was used before or how
 * long it took to open, and gives requests to connections that it has dropped.
 */
export class ConnectionPool {
  readonly #options: ConnectionPoolOptions
  readonly #all = new Set<Connection>()
  readonly #idle: Connection[] = []
  readonly #waiting = new Set<(connection: Connection) => void>()

  constructor(options: ConnectionPoolOptions) {
    this.#options = options
  }

  /** The connection that was used last, so that the others become idle and close. Undefined: all are busy. */
  take(): Connection | undefined {
    const connection = this.#takeIdle()
    if (connection !== undefined) return connection
    return this.#all.size < this.#options.connectionsMax ? this.#add() : undefined
  }

  /** Waits for a connection. Rejects when the deadline passes. */
  wait(deadline: Deadline): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const taken = (connection: Connection) => {
        deadline.watch(null)
        resolve(connection)
      }
      this.#waiting.add(taken)
      deadline.watch((failure) => {
        this.#waiting.delete(taken)
        reject(failure)
      })
    })
  }

  giveBack(connection: Connection): void {
    if (!this.#all.has(connection)) return
    const [next] = this.#waiting
    if (!connection.isReusable) {
      this.#drop(connection)
    } else if (next === undefined) {
      this.#idle.push(connection)
    } else {
      this.#waiting.delete(next)
      next(connection)
    }
  }

  async destroy(): Promise<void> {
    const all = [...this.#all]
    this.#all.clear()
    this.#idle.length = 0
    await Promise.all(
      all.map((connection) => connection.destroy(new SendError('ours', 'The sender was closed'))),
    )
  }

  #takeIdle(): Connection | undefined {
    for (let connection = this.#idle.pop(); connection !== undefined; connection = this.#idle.pop()) {
      if (connection.isReusable) return connection
      this.#forget(connection)
    }
    return undefined
  }

  #add(): Connection {
    const connection = new Connection(this.#options.url, this.#options.connector)
    this.#all.add(connection)
    connection.onClosed(() => {
      if (this.#idle.includes(connection)) this.#drop(connection)
    })
    return connection
  }

  #drop(connection: Connection): void {
    this.#forget(connection)
    const [next] = this.#waiting
    if (next === undefined) {
      if (this.#all.size === 0) this.#options.onEmpty()
      return
    }
    this.#waiting.delete(next)
    next(this.#add())
  }

  #forget(connection: Connection): void {
    this.#all.delete(connection)
    const at = this.#idle.indexOf(connection)
    if (at >= 0) this.#idle.splice(at, 1)
    void connection.destroy()
  }
}
