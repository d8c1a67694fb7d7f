import type { Reader } from '../core/reader.ts'
import type { Database } from '../db/database.ts'
import * as statements from './observe-statements.ts'

/** An attempt that was picked long ago and has not ended. */
export interface OverdueAttempt {
  /** Names this attempt and no other: every lease has a new token. */
  readonly key: string
  /** The subscription's name. */
  readonly name: string
  /** The event's type. */
  readonly type: string | null
  readonly eventId: number
  readonly worker: string | null
  readonly pickedAt: Date
}

/** The oldest first. */
export async function overdueAttempts(
  db: Database,
  { afterMs, limit }: { readonly afterMs: number; readonly limit: number },
): Promise<OverdueAttempt[]> {
  return (await db.query<OverdueAttempt>(statements.overdueAttempts(db).text, [afterMs, limit])).rows
}

export async function countOverdue(
  reader: Reader,
  { afterMs }: { readonly afterMs: number },
): Promise<number> {
  const { text } = statements.countOverdueAttempts(reader)
  return (await reader.query<{ count: number }>(text, [afterMs])).rows[0]?.count ?? 0
}

const attemptsMax = 1_000

/** Finds attempts that do not end, each of them once. */
export class OverdueWatch {
  readonly #db: Database
  readonly #afterMs: number
  /** Keys of the attempts that were overdue at the last look. */
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
