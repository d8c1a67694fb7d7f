import type { Database } from '../db/database.ts'
import { isAnyHeld } from '../operations/held.ts'
import { Loop } from './loop.ts'

export interface HoldWatchOptions {
  readonly db: Database
  /** Subscriptions of which this process holds deliveries that have not begun. */
  readonly waitingFor: () => readonly number[]
  /** One of them is paused, and nobody has told us. */
  readonly missed: () => void
  readonly trouble: (error: unknown, doing: string) => void
}

/**
 * Looks whether what is in hand may still begin, for when no notification comes through: no attempt begins later than a
 * second after a pause. A process that holds nothing asks nothing; what it leases is checked by the lease.
 */
export function holdWatchLoop({ db, waitingFor, missed, trouble }: HoldWatchOptions): Loop {
  return new Loop({
    name: 'looking for queues that were paused',
    everyMs: 600,
    trouble,
    step: async () => {
      const waiting = waitingFor()
      if (waiting.length > 0 && (await isAnyHeld(db, waiting))) missed()
      return false
    },
  })
}
