import type { Database } from '../../db/database.ts'
import * as statements from './breaker-statements.ts'

/** What this process has seen of an endpoint since its last report. */
export interface EndpointReport {
  readonly subscription: number
  /** How often the endpoint answered. */
  readonly reached: number
  /** Failures in a row to reach it, since it last answered. */
  readonly unreachable: number
  /** How many of these were probes. */
  readonly probes: number
  /** It answered that it is gone for good. */
  readonly isGone: boolean
  readonly error: string | null
  /** How long ago the first of this happened. */
  readonly ageMs: number
}

export interface StatusChange {
  readonly subscription: number
  readonly name: string
  readonly before: string
  readonly status: 'active' | 'draining' | 'suspended' | 'paused'
  readonly error: string | null
}

const notDurable = { durable: false } as const

/** Reports to the breaker of each endpoint. Returns the subscriptions whose status changed. */
export async function reportEndpoints(
  db: Database,
  reports: readonly EndpointReport[],
): Promise<StatusChange[]> {
  const values = [
    reports.map((report) => report.subscription),
    reports.map((report) => report.reached),
    reports.map((report) => report.unreachable),
    reports.map((report) => report.probes),
    reports.map((report) => report.isGone),
    reports.map((report) => report.error),
    reports.map((report) => Math.ceil(report.ageMs)),
  ]
  const rows = await db.once<ChangeRow>(statements.reportEndpoints(db), values, notDurable)
  return rows.map((row) => {
    const [subscription, name, before, status, error] = row
    return { subscription, name, before, status, error }
  })
}

type ChangeRow = [
  subscription: number,
  name: string,
  before: string,
  status: StatusChange['status'],
  error: string | null,
]

/** Suspended endpoints that this process, and no other, is to try now. */
export async function takeProbes(db: Database, probesMax: number): Promise<number[]> {
  const rows = await db.once<[subscription: number]>(statements.takeProbes(db), [probesMax], notDurable)
  return rows.map(([subscription]) => subscription)
}

/** There was no delivery to try these endpoints with. */
export async function returnProbes(db: Database, subscriptions: readonly number[]): Promise<void> {
  if (subscriptions.length > 0) await db.once(statements.returnProbes(db), [subscriptions], notDurable)
}

export interface BreakerOptions {
  readonly db: Database
  readonly changed: (change: StatusChange) => void
  readonly trouble: (error: unknown, doing: string) => void
}

/** What one attempt says of its endpoint. */
export interface Sighting {
  readonly subscription: number
  readonly endpoint: 'reached' | 'unreachable' | 'gone' | 'unknown'
  readonly isProbe: boolean
  readonly error: string | null
}

/** Successes wait this long, so that many go in one report. */
const successDelayMs = 100

type Seen = { -readonly [Key in keyof Omit<EndpointReport, 'ageMs'>]: EndpointReport[Key] } & {
  readonly since: number
}

/**
 * Collects what this process sees of endpoints, and reports many of them in one statement. The breakers themselves are rows in
 * the database, one for each endpoint.
 */
export class Breaker {
  readonly #options: BreakerOptions
  #seen = new Map<number, Seen>()
  #timer: NodeJS.Timeout | undefined
  #reporting: Promise<void> | undefined

  constructor(options: BreakerOptions) {
    this.#options = options
  }

  /** A failure must be known before anything else is done: then the promise resolves when the breaker has it. */
  tell(sighting: Sighting): Promise<void> | undefined {
    if (sighting.endpoint === 'unknown') return undefined
    this.#add(sighting)
    if (sighting.endpoint !== 'reached' || sighting.isProbe) return this.flush()
    this.#timer ??= setTimeout(() => void this.flush(), successDelayMs)
    return undefined
  }

  /** Reports everything seen so far. One statement at a time: what is seen meanwhile goes with the next. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    while (this.#reporting !== undefined) await this.#reporting
    if (this.#seen.size === 0) return
    const now = performance.now()
    this.#reporting = this.#report(
      [...this.#seen.values()].map(({ since, ...seen }) => ({ ...seen, ageMs: now - since })),
    )
    this.#seen = new Map()
    await this.#reporting
    this.#reporting = undefined
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

  async #report(reports: readonly EndpointReport[]): Promise<void> {
    const { db, changed, trouble } = this.#options
    try {
      for (const change of await reportEndpoints(db, reports)) changed(change)
    } catch (error) {
      trouble(error, 'reporting the state of webhook endpoints')
    }
  }
}

function nothingSeen(subscription: number): Seen {
  const since = performance.now()
  return { subscription, reached: 0, unreachable: 0, probes: 0, isGone: false, error: null, since }
}
