import type { Database } from '../db/database.ts'
import { type OverdueAttempt, overdueAttempts } from './overdue.ts'

const attemptsMax = 1_000

/** Finds attempts that do not end, and each of them once. */
export class OverdueWatch {
  readonly #db: Database
  readonly #afterMs: number
  /** Those that were overdue at the last look: what has ended since is forgotten. */
  #found = new Set<string>()

  constructor(db: Database, { overdueAfterMs }: { readonly overdueAfterMs: number }) {
    this.#db = db
    this.#afterMs = overdueAfterMs
  }

  async look(): Promise<OverdueAttempt[]> {
    const overdue = await overdueAttempts(this.#db, { afterMs: this.#afterMs, limit: attemptsMax })
    const before = this.#found
    this.#found = new Set(overdue.map(({ key }) => key))
    return overdue.filter(({ key }) => !before.has(key))
  }
}
