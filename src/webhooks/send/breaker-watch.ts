import type { Database } from '../../db/database.ts'
import { type EndpointChange, type EndpointReport, reportEndpoints } from './breaker.ts'

export interface BreakerOptions {
  readonly db: Database
  readonly changed: (change: EndpointChange) => void
  readonly trouble: (error: unknown, doing: string) => void
}

/** What an attempt says of its endpoint. */
export interface Sighting {
  readonly subscription: number
  readonly endpoint: 'reached' | 'unreachable' | 'gone' | 'unknown'
  readonly isProbe: boolean
  readonly error: string | null
}

/** Good news can wait a little, so that they travel together. */
const goodNewsMs = 100

type Seen = { -readonly [Key in keyof Omit<EndpointReport, 'ageMs'>]: EndpointReport[Key] } & {
  readonly since: number
}

/**
 * This process's end of the breakers. There is one for each endpoint, in the database: here is only collected what is to
 * be told to it, many in one statement.
 */
export class Breaker {
  readonly #options: BreakerOptions
  #seen = new Map<number, Seen>()
  #timer: NodeJS.Timeout | undefined
  #telling: Promise<void> | undefined

  constructor(options: BreakerOptions) {
    this.#options = options
  }

  /** Bad news must be known before anything else is done: then it resolves when the breaker has it. */
  tell(sighting: Sighting): Promise<void> | undefined {
    if (sighting.endpoint === 'unknown') return undefined
    this.#add(sighting)
    if (sighting.endpoint !== 'reached' || sighting.isProbe) return this.#flush()
    this.#timer ??= setTimeout(() => void this.#flush(), goodNewsMs)
    return undefined
  }

  /** Resolves when all is told. */
  async settled(): Promise<void> {
    await this.#flush()
  }

  #add({ subscription, endpoint, isProbe, error }: Sighting): void {
    const seen = this.#seen.get(subscription) ?? nothingSeen(subscription)
    this.#seen.set(subscription, seen)
    if (endpoint === 'unreachable') {
      seen.unreachable++
      if (isProbe) seen.probes++
      seen.error = error
    } else {
      seen.reached++
      seen.unreachable = 0
      seen.isGone ||= endpoint === 'gone'
      if (endpoint === 'gone') seen.error = error
    }
  }

  /** One statement at a time: what is seen meanwhile goes with the next. */
  async #flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    while (this.#telling !== undefined) await this.#telling
    if (this.#seen.size === 0) return
    const now = performance.now()
    this.#telling = this.#report(
      [...this.#seen.values()].map(({ since, ...seen }) => ({ ...seen, ageMs: now - since })),
    )
    this.#seen = new Map()
    await this.#telling
    this.#telling = undefined
  }

  async #report(reports: readonly EndpointReport[]): Promise<void> {
    const { db, changed, trouble } = this.#options
    try {
      for (const change of await reportEndpoints(db, reports)) changed(change)
    } catch (error) {
      trouble(error, 'telling how endpoints do')
    }
  }
}

function nothingSeen(subscription: number): Seen {
  const nothing = { reached: 0, unreachable: 0, probes: 0, isGone: false, error: null }
  return { subscription, ...nothing, since: performance.now() }
}
