import type { Turn } from './retention-walk.ts'

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
  /** There may be more: the next step goes on. */
  readonly more: boolean
}
