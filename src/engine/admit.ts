import type { Database } from '../db/database.ts'
import { admitStatement } from './admit-statements.ts'

export interface Admission {
  /** Another session is admitting, or has locked all that could move: try again in a moment. */
  readonly busy: boolean
  readonly moved: number
  /** Nothing visible is left to move. */
  readonly drained: boolean
}

/**
 * Moves due runs, arrivals and lanes that have no run: the drawing is above the SQL function `admit`. Remembers how far this
 * process has read the inbox, so that a table that is emptied all day is not searched from its beginning. That is only a hint.
 */
export class Admitter {
  readonly #db: Database
  #seen: Seen = nothingSeen
  #admittedAt = Number.NEGATIVE_INFINITY

  constructor(db: Database) {
    this.#db = db
  }

  /** False for a moment after this process has admitted. */
  isDue(): boolean {
    return performance.now() - this.#admittedAt >= admitEveryMs
  }

  async admit(): Promise<Admission> {
    this.#admittedAt = performance.now()
    const rows = await this.#db.once<AdmitRow>(admitStatement(this.#db), [...this.#seen, admittedEventsMax], {
      durable: false,
      indexPlans: true,
    })
    const [busy, moved, drained, ...seen] = rows[0] as AdmitRow
    if (seen[3] !== null) this.#seen = seen
    return { busy, moved, drained }
  }

  /** After a reconnect the server may be another one, with other transaction numbers. */
  forget(): void {
    this.#seen = nothingSeen
  }
}

const admitEveryMs = 50
/** Bounds one admission, and with it the time for which others find admit busy. */
const admittedEventsMax = 10_000

/** How far an admission has read the inbox: the arguments of the next one. */
type Seen = readonly [id: string | null, xid: string | null, pending: string | null, era: string | null]

const nothingSeen: Seen = [null, null, null, null]

type AdmitRow = [busy: boolean, moved: number, drained: boolean, ...seen: Seen]
