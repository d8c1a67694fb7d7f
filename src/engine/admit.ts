import { type Database, defineStatement } from '../db/database.ts'

export interface Admission {
  /** Somebody else is admitting right now, or has locked what could move on: worth another look in a moment. */
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
  #seen: Seen = nothingSeen
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
    const rows = await this.#db.once<AdmitRow>(admitStatement(this.#db), [...this.#seen, admittedEventsMax], {
      durable: false,
      indexPlans: true,
    })
    const [busy, moved, drained, ...seen] = rows[0] as AdmitRow
    if (seen[3] !== null) this.#seen = seen
    return { busy, moved, drained }
  }

  /** After a reconnect the server may be another one, whose transaction numbers mean nothing to us. */
  forget(): void {
    this.#seen = nothingSeen
  }
}

/** Waits for the admission under way, and keeps others from beginning until the transaction ends. */
export const lockAdmissions = defineStatement(
  'lock_admissions',
  `select pg_advisory_xact_lock(hashtextextended('__schema__', 7001))`,
)

const admitEveryMs = 50
/** Bounds one admission, and with it the time that others find it busy. */
const admittedEventsMax = 10_000

const admitStatement = defineStatement(
  'admit',
  `select busy, moved, drained, seen_id::text, seen_xid::text, seen_pending::text, era::text
  from __schema__.admit($1::text::bigint, $2::text::xid8, $3::text::xid8[], $4::text::uuid, $5)`,
)

/** How far an admission has looked, as the next one wants it. */
type Seen = readonly [id: string | null, xid: string | null, pending: string | null, era: string | null]

const nothingSeen: Seen = [null, null, null, null]

type AdmitRow = [busy: boolean, moved: number, drained: boolean, ...seen: Seen]
