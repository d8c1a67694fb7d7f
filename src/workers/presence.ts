import { Loop } from '../core/loop.ts'
import type { Database } from '../db/database.ts'
import { touchHandlers } from '../subscriptions/subscriptions.ts'
import type { RememberedWorker } from './workers.ts'

export interface PresenceOptions {
  readonly db: Database
  readonly worker: RememberedWorker
  /** The subscriptions that this process has handlers for, by number. */
  readonly handled: () => readonly number[]
  /** Runs as often as the heartbeat. */
  readonly also: () => Promise<void>
  readonly trouble: (error: unknown, doing: string) => void
}

/** Records every ten seconds that this process is alive. */
export function presenceLoop({ db, worker, handled, also, trouble }: PresenceOptions): Loop {
  return new Loop({
    name: 'worker heartbeat',
    everyMs: 10_000,
    trouble,
    step: async () => {
      await worker.register()
      if (handled().length > 0) await touchHandlers(db, handled())
      await also()
      return false
    },
  })
}
