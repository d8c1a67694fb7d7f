import type { Burial } from '../observe/hub-events.ts'

/** What memory queues tell, by the names of their subscriptions. */
export interface MemoryObserver {
  /** How long a statement took. */
  persisted(ms: number): void
  /** Another process has the queue, without the events that were not persisted. */
  lost(name: string, unpersisted: number): void
  /** The process stops, and the database was away for too long to persist these events. */
  dropped(name: string, unpersisted: number): void
  /** A start has found these events unfinished. */
  recovered(name: string, events: number): void
  buried(burial: Burial): void
}
