import { type Connection, type Database, defineStatement } from '../db/database.ts'

/** A walk over a table that is too large for one statement, and how far its present pass is. */
export interface Walk {
  readonly name: string
  readonly reached: number
  readonly reachedKey: string
  /** The first that had to stay in this pass; null: none so far. */
  readonly kept: number | null
}

/** Background passes wait until they are due and leave a walk alone that somebody else is on. */
export type Turn = 'when due' | 'now'

export interface WalkStep {
  readonly name: string
  readonly reached: number
  readonly reachedKey?: string
  readonly kept: number | null
  /** Null: the pass goes on; else the next one is due after this. */
  readonly nextPassMs: number | null
}

/** Holds the walk to the end of the transaction. Undefined: it is not due, or somebody else is on it. */
export async function takeWalk(
  tx: Connection,
  db: { readonly schema: string },
  { name, turn }: { readonly name: string; readonly turn: Turn },
): Promise<Walk | undefined> {
  await tx.run(makeStatement(db), [name])
  const [row] = await tx.run<WalkRow>(takeStatements[turn](db), [name])
  if (row === undefined) return undefined
  const [reached, reachedKey, kept] = row
  return { name, reached, reachedKey, kept }
}

/**
 * What lies before the first that had to stay is gone, so the next pass begins there. Once a day it begins at the very
 * start: a transaction that was open for long may have committed behind us.
 */
export async function endStep(
  tx: Connection,
  db: { readonly schema: string },
  { name, reached, reachedKey = '', kept, nextPassMs }: WalkStep,
): Promise<void> {
  if (nextPassMs === null) await tx.run(goOnStatement(db), [name, reached, reachedKey, kept])
  else await tx.run(endPassStatement(db), [name, kept === null ? reached : kept - 1, nextPassMs])
}

/** The pass that comes next, or goes on, begins at the start, now. */
export async function restartWalk(db: Database, name: string): Promise<void> {
  await db.run(makeStatement(db), [name])
  await db.run(restartStatement(db), [name])
}

const makeStatement = defineStatement(
  'make_walk',
  'insert into __schema__.retention_walks (name) values ($1) on conflict do nothing',
)

const takeStatement = `select w.reached, w.reached_key, w.kept
  from __schema__.retention_walks w
  where w.name = $1`

const takeStatements: Record<Turn, ReturnType<typeof defineStatement>> = {
  'when due': defineStatement(
    'take_walk_when_due',
    `${takeStatement} and w.due_at not between __schema__.clock() and __schema__.clock() + interval '1 day' for update skip locked`,
  ),
  now: defineStatement('take_walk_now', `${takeStatement} for update`),
}

const goOnStatement = defineStatement(
  'go_on_with_walk',
  'update __schema__.retention_walks set reached = $2, reached_key = $3, kept = $4 where name = $1',
)

const endPassStatement = defineStatement(
  'end_pass',
  `update __schema__.retention_walks w
  set reached = case when f.is_due then 0 else $2::bigint end, reached_key = '', kept = null,
    full_at = case when f.is_due then __schema__.clock() else w.full_at end,
    due_at = __schema__.clock() + $3 * interval '1 ms'
  from (
    select o.full_at not between __schema__.clock() - interval '1 day' and __schema__.clock() as is_due
    from __schema__.retention_walks o
    where o.name = $1
  ) as f
  where w.name = $1`,
)

const restartStatement = defineStatement(
  'restart_walk',
  `update __schema__.retention_walks
  set reached = 0, reached_key = '', kept = null, due_at = __schema__.clock(), full_at = __schema__.clock()
  where name = $1`,
)

type WalkRow = [reached: number, reachedKey: string, kept: number | null]
