import { EventEmitter } from 'node:events'
import type { PostgresDatabase } from '../db/postgres.ts'
import type { HubEvents } from '../observe/hub-events.ts'
import type { Logger } from '../observe/log.ts'
import { createMetrics, type Metrics } from '../observe/metrics.ts'
import { Signals } from './signals.ts'

/** What every feature is given. */
export interface Core {
  readonly db: PostgresDatabase
  readonly log: Logger
  readonly metrics: Metrics
  /** Between the parts of this process. */
  readonly signals: Signals
  /** For whoever uses the hub. */
  readonly events: EventEmitter<HubEvents>
  /** Logs that a background task failed. The task goes on. */
  readonly trouble: (error: unknown, doing: string) => void
}

export function createCore({ db, log }: Pick<Core, 'db' | 'log'>): Core {
  const trouble = (error: unknown, doing: string) =>
    log.error({ err: error, doing }, 'Background task failed')
  return {
    db,
    log,
    trouble,
    metrics: createMetrics(),
    signals: new Signals(log),
    events: new EventEmitter<HubEvents>(),
  }
}
