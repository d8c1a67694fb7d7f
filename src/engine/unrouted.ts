import { type Database, defineStatement } from '../db/database.ts'

/** An event that was buried as it was published, because nobody wanted it and somebody should have. */
export interface UnroutedLetter {
  readonly eventId: number
  readonly type: string | null
  readonly reason: string
}

/** Which of these events are dead letters without ever having been owed to anybody. */
export async function unroutedLetters(db: Database, eventIds: readonly number[]): Promise<UnroutedLetter[]> {
  const rows = await db.run<LetterRow>(unroutedStatement(db), [eventIds])
  return rows.map(([eventId, type, reason]) => ({ eventId, type, reason }))
}

const unroutedStatement = defineStatement(
  'unrouted_letters',
  // The type is not read from the snapshot: a payload may hold characters that no text in PostgreSQL can have.
  `select l.event_id, e.type, l.reason
  from __schema__.dead_letters l
  left join __schema__.events e on e.id = l.event_id
  where l.event_id = any($1::bigint[]) and l.subscription is null
  order by l.event_id`,
)

type LetterRow = [eventId: number, type: string | null, reason: string]
