import pg from 'pg'

export interface HostAddress {
  readonly host: string
  readonly port: number
}

/** The server answers, but is a standby of another one. */
export class StandbyError extends Error {}

/** Finds the server that takes writes among the hosts of the URL, and remembers it until it no longer takes writes. */
export class Primary {
  readonly #config: pg.ClientConfig
  readonly #hosts: readonly HostAddress[]
  #last: HostAddress | undefined
  #finding: Promise<HostAddress> | undefined

  constructor(config: pg.ClientConfig, hosts: readonly HostAddress[]) {
    this.#config = config
    this.#hosts = hosts
    if (hosts.length === 1) this.#last = hosts[0]
  }

  /** If so, another server may answer where one could not be reached. */
  get isOneOfSeveral(): boolean {
    return this.#hosts.length > 1
  }

  get severalHosts(): readonly string[] {
    return this.isOneOfSeveral ? this.#hosts.map(({ host }) => host) : []
  }

  async address(): Promise<HostAddress> {
    if (this.#last !== undefined) return this.#last
    this.#finding ??= this.#find().finally(() => {
      this.#finding = undefined
    })
    return this.#finding
  }

  /** That server does not take writes: the next call looks for another. */
  mistaken(address: HostAddress): void {
    if (this.isOneOfSeveral && this.#last === address) this.#last = undefined
  }

  /** Asks all hosts at once, so that a silent one does not delay the others. */
  async #find(): Promise<HostAddress> {
    try {
      this.#last = await Promise.any(this.#hosts.map((address) => this.#ask(address)))
      return this.#last
    } catch (error) {
      const { errors } = error as AggregateError
      const reasons = this.#hosts.map((address, at) => `${nameOf(address)}: ${reasonOf(errors[at])}`)
      const message = `none of the named servers takes writes (${reasons.join('; ')})`
      throw errors.some((reason) => reason instanceof StandbyError)
        ? new StandbyError(message, { cause: error })
        : new Error(`Connection terminated: ${message}`, { cause: error })
    }
  }

  async #ask(address: HostAddress): Promise<HostAddress> {
    const client = new pg.Client(this.#config)
    Object.assign(client, address)
    client.on('error', () => undefined)
    try {
      await client.connect()
      await refuseStandby(client, address)
      return address
    } finally {
      client.connection.stream.destroy()
    }
  }
}

/** A client that connects only to the server that takes writes. */
export class PrimaryClient extends pg.Client {
  readonly #primary: Primary

  constructor(config: pg.ClientConfig, primary: Primary) {
    super(config)
    this.#primary = primary
    // While it connects, nobody else listens, and an error without a listener would end the process.
    this.on('error', () => undefined)
  }

  override connect(): Promise<this>
  override connect(callback: (error: Error) => void): void
  override connect(callback?: (error: Error) => void): Promise<this> | undefined {
    const connecting = this.#connect()
    if (callback === undefined) return connecting
    connecting.then(() => callback(undefined as never), callback)
    return undefined
  }

  async #connect(): Promise<this> {
    const address = await this.#primary.address()
    Object.assign(this, address)
    try {
      await super.connect()
      await refuseStandby(this, address)
      return this
    } catch (error) {
      this.#primary.mistaken(address)
      this.connection.stream.destroy()
      throw error
    }
  }
}

/**
 * How long a server may take to say whether it is a standby. Whoever connects waits for that answer, and on a connection that
 * has gone silent it never comes.
 */
const answerMsMax = 5_000

async function refuseStandby(client: pg.Client, address: HostAddress): Promise<void> {
  const question = { text: 'select pg_is_in_recovery() as "isStandby"', query_timeout: answerMsMax }
  const { rows } = await client.query<{ isStandby: boolean }>(question)
  if (rows[0]?.isStandby) throw new StandbyError(`${nameOf(address)} is a standby and takes no writes`)
}

function nameOf({ host, port }: HostAddress): string {
  return `${host}:${port}`
}

function reasonOf(error: unknown): string {
  if (error instanceof StandbyError) return 'a standby'
  if (error instanceof AggregateError && error.message === '') return error.errors.map(reasonOf).join(', ')
  return error instanceof Error ? error.message : String(error)
}
