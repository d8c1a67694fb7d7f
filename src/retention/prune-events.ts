import { numberArray } from '../db/array.ts'
import type { Connection, Database } from '../db/database.ts'
import * as statements from './event-statements.ts'
import type { PruneRequest, PruneStep } from './prune-step.ts'
import { endStep, type Turn, takeWalk } from './retention-walk.ts'

/** Events whose time may be over: those of a type that says how long it keeps them, or all whose type does not. */
export interface OldEventsRequest {
  readonly type: string | null
  readonly keepMs: number
  /** Ids above this one. */
  readonly after: number
}

export interface OldEvents {
  /** In order, finished or not. */
  readonly eventIds: readonly number[]
  readonly reached: number
  /** All events beyond are too young. */
  readonly isOver: boolean
}

/** Of one step. A long payload is many rows of a table of its own, so the bytes of a step have a bound as well. */
const seenMax = 1_000
const payloadBytesMax = 16 * 2 ** 20
/** How long until old events that had to stay are looked at again. */
const nextPassMs = 5 * 60_000

export function walkOf(type: string | null): string {
  return type === null ? 'events' : `type:${type}`
}

/** Removes finished events whose type does not say how long they are kept. */
export function pruneEvents(db: Database, { keepMs, turn }: PruneRequest): Promise<PruneStep> {
  return prune(db, { type: null, turn, keepMsIn: async () => keepMs })
}

/** Every step asks the type how long it keeps its events: that may have changed since the list of types was read. */
export function pruneEventsOfType(
  db: Database,
  { type, turn }: { readonly type: string; readonly turn: Turn },
): Promise<PruneStep> {
  const keepMsIn = async (tx: Connection) => {
    const [row] = await tx.run<[keepMs: number | null]>(statements.keepMsOfType(db), [type])
    return row?.[0] ?? null
  }
  return prune(db, { type, turn, keepMsIn })
}

interface PruneEventsRequest {
  readonly type: string | null
  readonly turn: Turn
  /** Null: the type no longer says. */
  readonly keepMsIn: (tx: Connection) => Promise<number | null>
}

/**
 * Sending an event again locks its row, and pruning skips locked rows. A statement of its own, after the locks, finds out
 * which events are finished.
 */
function prune(db: Database, { type, turn, keepMsIn }: PruneEventsRequest): Promise<PruneStep> {
  return db.transaction(
    async (tx) => {
      const walk = await takeWalk(tx, db, { name: walkOf(type), turn })
      const keepMs = await keepMsIn(tx)
      if (walk === undefined || keepMs === null) return { removed: 0, more: false }
      const request = { type, keepMs, after: walk.reached }
      const { eventIds, reached, isOver } = await chooseOldEvents(tx, db, request)
      const removed = await removeFinished(tx, db, { eventIds, keepMs })
      const kept = walk.kept ?? eventIds.find((id) => !removed.has(id)) ?? null
      await endStep(tx, db, { name: walk.name, reached, kept, nextPassMs: isOver ? nextPassMs : null })
      return { removed: removed.size, more: !isOver }
    },
    { indexPlans: true, hashJoins: true },
  )
}

/** The next events that were published before the time for which they are kept. */
export async function chooseOldEvents(
  tx: Connection,
  db: { readonly schema: string },
  { type, keepMs, after }: OldEventsRequest,
): Promise<OldEvents> {
  const bounds = [after, keepMs, seenMax, payloadBytesMax]
  const [row] =
    type === null
      ? await tx.run<OldEventsRow>(statements.chooseOldEvents(db), bounds)
      : await tx.run<OldEventsRow>(statements.chooseOldOfType(db), [...bounds, type])
  const [eventIds, reached, isOver] = row as OldEventsRow
  return { eventIds, reached, isOver }
}

type OldEventsRow = [eventIds: number[], reached: number, isOver: boolean]

async function removeFinished(
  tx: Connection,
  db: { readonly schema: string },
  { eventIds, keepMs }: { readonly eventIds: readonly number[]; readonly keepMs: number },
): Promise<Set<number>> {
  if (eventIds.length === 0) return new Set()
  const locked = await tx.run<[id: number]>(statements.lockOldEvents(db), [numberArray(eventIds)])
  if (locked.length === 0) return new Set()
  const ids = numberArray(locked.map(([id]) => id))
  const rows = await tx.run<[eventId: number]>(statements.removeFinished(db), [ids, keepMs])
  return new Set(rows.map(([eventId]) => eventId))
}
