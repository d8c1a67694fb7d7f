import type { Database } from '../db/database.ts'
import { findUnroutedStatement } from './upkeep-statements.ts'

/** An event that required a route, matched no subscription and became a dead letter when it was published. */
export interface UnroutedLetter {
  readonly eventId: number
  readonly type: string | null
  readonly reason: string
}

/** Those of these events that became dead letters because no subscription wanted them. */
export async function unroutedLetters(db: Database, eventIds: readonly number[]): Promise<UnroutedLetter[]> {
  const rows = await db.run<LetterRow>(findUnroutedStatement(db), [eventIds])
  return rows.map(([eventId, type, reason]) => ({ eventId, type, reason }))
}

type LetterRow = [eventId: number, type: string | null, reason: string]
