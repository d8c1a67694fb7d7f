import { type Connection, defineStatement } from '../db/database.ts'
import { namedRows } from '../db/rows.ts'

export interface LogEntry {
  /** Unique and growing with time within an event. */
  readonly id: number
  readonly eventId: number
  readonly subscription: number
  readonly workerId: string | null
  readonly action: LogAction
  readonly statusCode: number | null
  readonly errorMessage: string | null
  readonly executionTimeMs: number | null
  readonly createdAt: Date
}

export type LogAction =
  | 'PICKED'
  | 'STARTED'
  | 'COMPLETED'
  | 'COMPLETED_WITH_ERRORS'
  | 'FAILED'
  | 'SNOOZED'
  | 'RELEASED'
  | 'RESET'
  | 'EXPIRED'
  | 'CANCELLED'
  | 'DISCARDED'
  | 'REDRIVEN'

/** More attempts than this on one event are read in part, the newest: nothing else bounds a log. */
const entriesMax = 3000

/** What was done about an event, oldest first. To find a lease in force takes a look at all of them. */
export async function readLog(
  db: Connection & { readonly schema: string },
  eventId: number,
  leases: 'some' | 'none',
): Promise<LogEntry[]> {
  const statement = leases === 'some' ? readWhole : readWritten
  const rows = await db.run(statement(db), [eventId, entriesMax])
  return namedRows<LogEntry>(columns, rows.reverse())
}

const readFrom = (view: string) =>
  `select l.id, l.event_id, l.subscription, l.worker_id, l.action, l.status_code, l.error_message, l.execution_time_ms,
    l.created_at
  from __schema__.${view} l
  where l.event_id = $1
  order by l.id desc
  limit $2`
const readWhole = defineStatement('read_log', readFrom('event_log'))
const readWritten = defineStatement('read_written_log', readFrom('written_log'))

const columns = [
  'id',
  'eventId',
  'subscription',
  'workerId',
  'action',
  'statusCode',
  'errorMessage',
  'executionTimeMs',
  'createdAt',
] as const
