import { numberArray } from '../db/array.ts'
import { type Connection, type Database, defineStatement } from '../db/database.ts'
import { chooseOldEvents, finishedLongAgo } from './old-events.ts'
import { endStep, type Turn, takeWalk } from './retention-walk.ts'

export interface PruneEventsRequest {
  /** Of a type that says how long it is kept, or of all that do not. */
  readonly events: { readonly type: string } | { readonly type: null; readonly keepMs: number }
  readonly turn: Turn
}

/** What one step of pruning did. */
export interface PruneStep {
  readonly removed: number
  /** There may be more: the next step goes on. */
  readonly more: boolean
}

/** How long until old events that had to stay are looked at again. */
const nextPassMs = 5 * 60_000

export function walkOf(type: string | null): string {
  return type === null ? 'events' : `type:${type}`
}

/**
 * Removes finished events whose time is over, a bounded step of them, and notes them for their audit to follow. Whoever
 * would send one again holds it, and is left alone; that nothing of it waits is read by a statement of its own, after
 * the locks.
 */
export async function pruneEvents(db: Database, { events, turn }: PruneEventsRequest): Promise<PruneStep> {
  const { type } = events
  return db.transaction(
    async (tx) => {
      const walk = await takeWalk(tx, db, { name: walkOf(type), turn })
      const keepMs = 'keepMs' in events ? events.keepMs : await keepMsOf(tx, db, events.type)
      if (walk === undefined || keepMs === null) return { removed: 0, more: false }
      const { eventIds, reached, isOver } = await chooseOldEvents(tx, db, {
        type,
        keepMs,
        after: walk.reached,
      })
      const removed = await removeFinished(tx, db, { eventIds, keepMs })
      const gone = new Set(removed)
      const kept = walk.kept ?? eventIds.find((id) => !gone.has(id)) ?? null
      await endStep(tx, db, { name: walk.name, reached, kept, nextPassMs: isOver ? nextPassMs : null })
      return { removed: removed.length, more: !isOver }
    },
    { indexPlans: true, hashJoins: true },
  )
}

/** Asked for by every step: it may have changed since the list of types was read. */
async function keepMsOf(
  tx: Connection,
  db: { readonly schema: string },
  type: string,
): Promise<number | null> {
  const [row] = await tx.run<[keepMs: number | null]>(keepStatement(db), [type])
  return row?.[0] ?? null
}

async function removeFinished(
  tx: Connection,
  db: { readonly schema: string },
  { eventIds, keepMs }: { readonly eventIds: readonly number[]; readonly keepMs: number },
): Promise<number[]> {
  if (eventIds.length === 0) return []
  const locked = await tx.run<[id: number]>(lockStatement(db), [numberArray(eventIds)])
  if (locked.length === 0) return []
  const ids = numberArray(locked.map(([id]) => id))
  const rows = await tx.run<[eventId: number]>(removeStatement(db), [ids, keepMs])
  return rows.map(([eventId]) => eventId)
}

const keepStatement = defineStatement(
  'keep_ms_of_type',
  'select t.keep_ms from __schema__.event_types t where t.type = $1',
)

const lockStatement = defineStatement(
  'lock_old_events',
  'select e.id from __schema__.events e where e.id = any($1::bigint[]) order by e.id for update skip locked',
)

const removeStatement = defineStatement(
  'remove_events',
  `with finished as materialized (
    select f.event_id, f.finished_at from ${finishedLongAgo}
  ),
  removed as (
    delete from __schema__.events e where e.id = any(array(select f.event_id from finished f))
  ),
  noted as (
    insert into __schema__.removals (event_ids, finished_at)
    select array_agg(f.event_id order by f.event_id), max(f.finished_at) from finished f having count(*) > 0
  )
  select f.event_id from finished f`,
)
