import { randomUUID } from 'node:crypto'
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
  /** For the application that uses the hub. */
  readonly events: EventEmitter<HubEvents>
  /** Logs that a background task failed. The task goes on. */
  readonly trouble: (error: unknown, doing: string) => void
  /** The name of this process in the list of workers. */
  readonly workerId: string
  /** The number that leases know this process by. */
  readonly identity: WorkerIdentity
  readonly worker: () => Promise<number>
  /** Processes of one schema notify each other here. */
  readonly channel: string
  /** Names this start of the process in notifications, so that it does not wake itself. */
  readonly processId: string
}

export interface WorkerIdentity {
  number(): Promise<number>
  /** Tells the database that this process lives. After a failover the process may get another number. */
  register(): Promise<number>
}

export interface CoreOptions extends Pick<Core, 'db' | 'log' | 'workerId' | 'identity'> {
  readonly schema: string
}

export function createCore({ db, log, workerId, identity, schema }: CoreOptions): Core {
  const trouble = (error: unknown, doing: string) =>
    log.error({ err: error, doing }, 'Background task failed')
  return {
    db,
    log,
    workerId,
    identity,
    trouble,
    worker: () => identity.number(),
    channel: `posthorn.${schema}`,
    processId: randomUUID(),
    metrics: createMetrics(),
    signals: new Signals(log),
    events: new EventEmitter<HubEvents>(),
  }
}
