import type { Database } from '../db/database.ts'
import { peekStatement } from './upkeep-statements.ts'

/** What there is to do. Every loop that polls adds its question here: an idle process asks nothing else. */
export interface Peek {
  /** Admit has something to move: arrivals, notes or due runs. */
  readonly arrivals: boolean
  /** The given subscriptions that have ready runs. */
  readonly ready: readonly number[]
  /** A lease has ended, a delivery has expired, or the clock was set back. */
  readonly overdue: boolean
  /** A replay can go on. */
  readonly replays: boolean
  /** There are tallies to add up. */
  readonly tallied: boolean
  /** A queue drains. */
  readonly draining: boolean
}

/**
 * Whether there is anything to do, in one cheap statement. `memoryTokens` are the tokens by which the caller has queues in its
 * memory: it cannot lease from a queue that another process has in memory.
 */
export async function peek(
  db: Database,
  subscriptions: readonly number[],
  memoryTokens: readonly number[] = [],
): Promise<Peek> {
  const [row] = await db.run<PeekRow>(peekStatement(db), [subscriptions, memoryTokens])
  const [arrivals, ready, overdue, replays, tallied, draining] = row as PeekRow
  return { arrivals, ready, overdue, replays, tallied, draining }
}

/** Whether there is something to lease or to admit for these subscriptions. */
export function hasWork({ arrivals, ready }: Peek, subscriptions: readonly number[]): boolean {
  return arrivals || ready.some((no) => subscriptions.includes(no))
}

type PeekRow = [
  arrivals: boolean,
  ready: number[],
  overdue: boolean,
  replays: boolean,
  tallied: boolean,
  draining: boolean,
]
