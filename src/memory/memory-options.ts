import type { Signals } from '../core/signals.ts'
import type { Database } from '../db/database.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import type { Burial } from '../observe/hub-events.ts'

export interface MemoryOptions extends MemoryObserver {
  readonly db: Database
  /** This process, by name and by number. */
  readonly workerId: string
  readonly worker: () => Promise<number>
  readonly newToken: () => number
  readonly leased: (run: LeasedRun, leaseMs: number) => void
  /** By which the runner learns what it may begin, take and hand back. */
  readonly signals: Signals
  readonly trouble: (error: unknown, doing: string) => void
}

/** What memory queues tell, by the names of their subscriptions. */
export interface MemoryObserver {
  /** How long a statement took. */
  persisted(ms: number): void
  /** Another process has the queue, and does not have what was not persisted. */
  lost(name: string, unpersisted: number): void
  /** The process stops, and the database was away for too long to have these. */
  dropped(name: string, unpersisted: number): void
  /** A start has found these. */
  recovered(name: string, events: number): void
  buried(burial: Burial): void
}
