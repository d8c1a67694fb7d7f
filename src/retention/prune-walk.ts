import type { Connection } from '../db/database.ts'
import * as statements from './prune-statements.ts'

export interface PruneRequest {
  readonly keepMs: number
  readonly turn: Turn
}

/** What one bounded step of pruning a table did. */
export interface PruneStep {
  /** Rows of the table that went. */
  readonly removed: number
  /** Rows of other tables that went with them, by table. */
  readonly also?: Readonly<Record<string, number>>
  /** There may be more: another step should follow. */
  readonly more: boolean
}

/** A walk through a table that is too large for one statement, and how far its present pass has come. */
export interface Walk {
  readonly name: string
  readonly reached: number
  readonly reachedKey: string
  /** The first row that had to stay in this pass; null: none so far. */
  readonly kept: number | null
}

/** Upkeep waits until a pass is due, and leaves a walk alone that another process holds. */
export type Turn = 'when due' | 'now'

export interface WalkStep {
  readonly name: string
  readonly reached: number
  readonly reachedKey?: string
  readonly kept: number | null
  /** Null: the pass goes on; else the next pass is due after this time. */
  readonly nextPassMs: number | null
}

/** Holds the walk to the end of the transaction. Undefined: the walk is not due, or another process holds it. */
export async function takeWalk(
  tx: Connection,
  db: { readonly schema: string },
  { name, turn }: { readonly name: string; readonly turn: Turn },
): Promise<Walk | undefined> {
  await tx.run(statements.makeWalk(db), [name])
  const take = turn === 'now' ? statements.takeWalkNow : statements.takeWalkWhenDue
  return (await tx.query<Walk>(take(db).text, [name])).rows[0]
}

/**
 * All rows before the first that had to stay are gone, so the next pass begins there. Once a day a pass begins at the
 * very start: a transaction that was open for long may have committed behind the walk.
 */
export async function endStep(
  tx: Connection,
  db: { readonly schema: string },
  { name, reached, reachedKey = '', kept, nextPassMs }: WalkStep,
): Promise<void> {
  if (nextPassMs === null) await tx.run(statements.continuePass(db), [name, reached, reachedKey, kept])
  else await tx.run(statements.endPass(db), [name, kept === null ? reached : kept - 1, nextPassMs])
}
