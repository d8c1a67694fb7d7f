import type { Connection, Database } from '../db/database.ts'
import * as statements from './walk-statements.ts'

/** A walk over a table that is too large for one statement, and how far its present pass has come. */
export interface Walk {
  readonly name: string
  readonly reached: number
  readonly reachedKey: string
  /** The first row that had to stay in this pass; null: none so far. */
  readonly kept: number | null
}

/** Background passes wait until they are due and leave a walk alone that another process is on. */
export type Turn = 'when due' | 'now'

export interface WalkStep {
  readonly name: string
  readonly reached: number
  readonly reachedKey?: string
  readonly kept: number | null
  /** Null: the pass goes on; else the next pass is due after this time. */
  readonly nextPassMs: number | null
}

/**
 * Whether it is this process's turn to prune. Of many processes with upkeep one prunes at a time, so that the pauses
 * between its steps are pauses. If it dies another process takes over when the turn ends.
 */
export async function takePruneTurn(
  db: Database,
  { holder, turnMs }: { readonly holder: string; readonly turnMs: number },
): Promise<boolean> {
  const rows = await db.once<[name: string]>(statements.takeTurn(db), [holder, turnMs], { durable: false })
  return rows.length > 0
}

/** Holds the walk to the end of the transaction. Undefined: the walk is not due, or another process is on it. */
export async function takeWalk(
  tx: Connection,
  db: { readonly schema: string },
  { name, turn }: { readonly name: string; readonly turn: Turn },
): Promise<Walk | undefined> {
  await tx.run(statements.makeWalk(db), [name])
  const take = turn === 'now' ? statements.takeWalkNow : statements.takeWalkWhenDue
  const [row] = await tx.run<WalkRow>(take(db), [name])
  if (row === undefined) return undefined
  const [reached, reachedKey, kept] = row
  return { name, reached, reachedKey, kept }
}

type WalkRow = [reached: number, reachedKey: string, kept: number | null]

/**
 * All rows before the first that had to stay are gone, so the next pass begins there. Once a day a pass begins at the
 * very start: a transaction that was open for long may have committed behind the walk.
 */
export async function endStep(
  tx: Connection,
  db: { readonly schema: string },
  { name, reached, reachedKey = '', kept, nextPassMs }: WalkStep,
): Promise<void> {
  if (nextPassMs === null) await tx.run(statements.goOnWithWalk(db), [name, reached, reachedKey, kept])
  else await tx.run(statements.endPass(db), [name, kept === null ? reached : kept - 1, nextPassMs])
}

/** The next step begins at the start, now. */
export async function restartWalk(db: Database, name: string): Promise<void> {
  await db.run(statements.makeWalk(db), [name])
  await db.run(statements.restartPass(db), [name])
}
