import { numberArray } from '../db/array.ts'
import type { Connection, Database } from '../db/database.ts'
import * as statements from './event-statements.ts'
import { endStep, type PruneRequest, type PruneStep, takeWalk } from './prune-walk.ts'

export interface OldEventsRequest {
  /** A type with a time of its own; null: all types that have none. */
  readonly type: string | null
  readonly keepMs: number
  /** Look at higher ids only. */
  readonly after: number
}

export interface OldEvents {
  /** In order, finished or not. */
  readonly eventIds: readonly number[]
  readonly reached: number
  /** All events beyond are too young. */
  readonly isOver: boolean
}

/** Bounds of one step. A long payload is many rows in PostgreSQL's side table, so the bytes have a bound as well. */
const seenMax = 1_000
const payloadBytesMax = 16 * 2 ** 20
/** After this time old events that had to stay are checked again. */
const nextPassMs = 5 * 60_000

export function walkOf(type: string | null): string {
  return type === null ? 'events' : `type:${type}`
}

/**
 * Removes finished events of the type, or of all types that have no time of their own. Every step reads the type's time again:
 * it may have changed since the list of types was read. Sending an event again locks its row, and pruning skips locked rows;
 * which events are finished is decided by a second statement, after the rows are locked.
 */
export function pruneEvents(
  db: Database,
  { type = null, turn, ...request }: PruneRequest & { readonly type?: string | null },
): Promise<PruneStep> {
  return db.transaction(
    async (tx) => {
      const walk = await takeWalk(tx, db, { name: walkOf(type), turn })
      const keepMs = type === null ? request.keepMs : await keepMsOf(tx, db, type)
      if (walk === undefined || keepMs === null) return { removed: 0, more: false }
      const old = await chooseOldEvents(tx, db, { type, keepMs, after: walk.reached })
      const { eventIds, reached, isOver } = old
      const removed = await removeFinished(tx, db, { eventIds, keepMs })
      const kept = walk.kept ?? eventIds.find((id) => !removed.has(id)) ?? null
      await endStep(tx, db, { name: walk.name, reached, kept, nextPassMs: isOver ? nextPassMs : null })
      return { removed: removed.size, more: !isOver }
    },
    { indexPlans: true, hashJoins: true },
  )
}

/** Null: the type no longer has a time of its own. */
async function keepMsOf(
  tx: Connection,
  db: { readonly schema: string },
  type: string,
): Promise<number | null> {
  const { rows } = await tx.query<{ keepMs: number | null }>(statements.keepMsOfType(db).text, [type])
  return rows[0]?.keepMs ?? null
}

/** The next events that were published longer ago than they are kept. */
export async function chooseOldEvents(
  tx: Connection,
  db: { readonly schema: string },
  { type, keepMs, after }: OldEventsRequest,
): Promise<OldEvents> {
  const bounds = [after, keepMs, seenMax, payloadBytesMax]
  const { rows } =
    type === null
      ? await tx.query<OldEvents>(statements.chooseOldEvents(db).text, bounds)
      : await tx.query<OldEvents>(statements.chooseOldOfType(db).text, [...bounds, type])
  return rows[0] as OldEvents
}

async function removeFinished(
  tx: Connection,
  db: { readonly schema: string },
  { eventIds, keepMs }: { readonly eventIds: readonly number[]; readonly keepMs: number },
): Promise<Set<number>> {
  if (eventIds.length === 0) return new Set()
  const locked = await tx.query<{ id: number }>(statements.lockOldEvents(db).text, [numberArray(eventIds)])
  if (locked.rows.length === 0) return new Set()
  const ids = numberArray(locked.rows.map(({ id }) => id))
  const { rows } = await tx.query<{ eventId: number }>(statements.removeFinished(db).text, [ids, keepMs])
  return new Set(rows.map(({ eventId }) => eventId))
}
