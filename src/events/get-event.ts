import { type Database, defineStatement } from '../db/database.ts'
import { namedRows } from '../db/rows.ts'
import { checkEventId } from '../domain/id.ts'
import { type DeliveryState, type EventStatus, eventStatus } from '../domain/status.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import { type EventRow, eventFromRow } from '../engine/event-row.ts'
import { type LogEntry, readLog } from './event-log.ts'

export interface GetEventRequest {
  readonly id: number
  readonly logs: 'with' | 'without'
}

/** Where an event stands: the figures of its work delivery, else the largest of all its deliveries. */
export interface EventProgress {
  readonly status: EventStatus
  readonly attempts: number
  readonly retryCount: number
  readonly maxRetries: number | null
  readonly nextRetryAt: Date | null
  readonly updatedAt: Date
}

/** How far a delivery has come. */
export interface DeliveryProgress {
  readonly id: string
  /** The subscription's number; `name` and `subscriptionId` are what users know it by. */
  readonly subscription: number
  readonly subscriptionId: string
  readonly name: string
  /** Begun so far, one under way included. */
  readonly attempts: number
  readonly failures: number
  readonly nextAt: Date | null
  readonly lastError: string | null
  readonly lastErrorAt: Date | null
  /** While it is leased: since when and until when. */
  readonly leasedAt: Date | null
  readonly leasedUntil: Date | null
  /** Who holds it, or had it last. */
  readonly worker: string | null
  readonly updatedAt: Date
}

export interface EventDelivery extends DeliveryProgress {
  readonly state: DeliveryState
}

export interface EventDetails {
  readonly event: StoredEvent
  readonly progress: EventProgress
  readonly deliveries: readonly EventDelivery[]
  /** Empty unless asked for. */
  readonly logs: readonly LogEntry[]
  /** When what it said was erased. */
  readonly purgedAt: Date | null
}

/** One event with all that is known of it, or undefined. */
export async function getEvent(db: Database, request: GetEventRequest): Promise<EventDetails | undefined> {
  const { id, logs } = request
  checkEventId(id)
  // One snapshot would take a transaction; instead the deliveries, read in one statement, decide the status.
  const [row] = await db.once<DetailsRow>(readEvent(db), [id], { readOnly: true })
  if (row === undefined) return undefined
  const [unwanted, policyRetries, purgedAt, ...columns] = row
  const event = eventFromRow(columns)
  const deliveries = namedRows<EventDelivery>(deliveryColumns, await db.run(readDeliveryStates(db), [id]))
  const leases = deliveries.some(({ state }) => state === 'leased') ? 'some' : 'none'
  return {
    event,
    progress: progressOf({ event, deliveries, unwanted, policyRetries }),
    deliveries,
    logs: logs === 'with' ? await readLog(db, id, leases) : [],
    purgedAt,
  }
}

const readEvent = defineStatement(
  'read_event',
  `select
    exists (
      select 1 from __schema__.dead_letters l
      where l.event_id = e.id and l.subscription is null and l.redriven_at is null),
    (select coalesce(
        max((s.retry->>'failuresMax')::int) filter (where s.no = 0),
        max((s.retry->>'failuresMax')::int))
     from __schema__.subscriptions s
     where s.no = any(e.owed)),
    e.purged_at,
    e.id, e.type, e.payload, e.ordering_key, date_part('epoch', e.created_at) * 1000, __schema__.rare_fields(e)
  from __schema__.events e
  where e.id = $1`,
)

type DetailsRow = [unwanted: boolean, policyRetries: number | null, purgedAt: Date | null, ...event: EventRow]

const readDeliveryStates = defineStatement(
  'read_delivery_states',
  `select __schema__.delivery_id(e.created_at, e.id, d.subscription), d.subscription, s.id, s.name, d.state, d.attempts,
    d.failures, d.next_at, d.last_error, d.last_error_at, d.leased_at, d.leased_until, w.name, d.updated_at
  from __schema__.events e
  cross join lateral __schema__.delivery_states(array[e.id]) as d
  join __schema__.subscriptions s on s.no = d.subscription
  left join __schema__.workers w on w.no = d.worker
  where e.id = $1
  order by d.subscription`,
)

const deliveryColumns = [
  'id',
  'subscription',
  'subscriptionId',
  'name',
  'state',
  'attempts',
  'failures',
  'nextAt',
  'lastError',
  'lastErrorAt',
  'leasedAt',
  'leasedUntil',
  'worker',
  'updatedAt',
] as const

interface Standing {
  readonly event: StoredEvent
  readonly deliveries: readonly EventDelivery[]
  readonly unwanted: boolean
  readonly policyRetries: number | null
}

/** The same figures as the SQL function event_states. */
function progressOf({ event, deliveries, unwanted, policyRetries }: Standing): EventProgress {
  const work = deliveries.filter(({ subscription }) => subscription === 0)
  const counted = work.length > 0 ? work : deliveries
  const nextTimes = counted.flatMap(({ nextAt }) => (nextAt === null ? [] : [nextAt.getTime()]))
  return {
    status: eventStatus({ states: deliveries.map(({ state }) => state), unwanted }),
    attempts: Math.max(0, ...counted.map(({ attempts }) => attempts)),
    retryCount: Math.max(0, ...counted.map(({ failures }) => failures)),
    maxRetries: event.maxRetries ?? policyRetries,
    nextRetryAt: nextTimes.length === 0 ? null : new Date(Math.min(...nextTimes)),
    updatedAt: new Date(
      Math.max(event.createdAt.getTime(), ...deliveries.map(({ updatedAt }) => updatedAt.getTime())),
    ),
  }
}
