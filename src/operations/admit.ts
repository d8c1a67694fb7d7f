import { type Database, defineStatement } from '../db/database.ts'

export interface Admission {
  /** Another process is admitting right now; what it can't see yet waits for the next one. */
  readonly busy: boolean
  readonly moved: number
  /** Nothing that could be seen was left behind. */
  readonly drained: boolean
}

/**
 * Moves due runs, arrivals and freed lanes on. Remembers in memory how far this process has looked, so that
 * a table that is emptied all day is not searched from its beginning: a hint, never the truth.
 */
export class Admitter {
  readonly #db: Database
  #since: string | null = null
  #era: string | null = null
  #admittedAt = Number.NEGATIVE_INFINITY

  constructor(db: Database) {
    this.#db = db
  }

  /** False while this process has admitted a moment ago. */
  isDue(): boolean {
    return performance.now() - this.#admittedAt >= admitEveryMs
  }

  async admit(): Promise<Admission> {
    this.#admittedAt = performance.now()
    const values = [this.#since, this.#era, admittedEventsMax]
    const rows = await this.#db.once<AdmitRow>(admitStatement(this.#db), values, {
      durable: false,
      indexPlans: true,
    })
    const [busy, moved, drained, seen, era] = rows[0] as AdmitRow
    if (drained) {
      this.#since = seen
      this.#era = era
    }
    return { busy, moved, drained }
  }

  /** After a reconnect the server may be another one, whose transaction numbers mean nothing to us. */
  forget(): void {
    this.#since = null
  }
}

const admitEveryMs = 50
/** Bounds one admission, and with it the time that others find it busy. */
const admittedEventsMax = 10_000

const admitStatement = defineStatement(
  'admit',
  'select busy, moved, drained, seen::text, era::text from __schema__.admit($1::text::pg_snapshot, $2::text::uuid, $3)',
)

type AdmitRow = [busy: boolean, moved: number, drained: boolean, seen: string, era: string]
