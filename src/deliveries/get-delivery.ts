import { type Database, defineStatement } from '../db/database.ts'
import { hideSecrets } from '../domain/hidden-headers.ts'
import { parseDeliveryId } from '../domain/id.ts'
import type { DeliveryRequest } from './bury.ts'
import { type ListedDelivery, readDeliveries } from './listed-delivery.ts'

export interface DeliveryDetails extends ListedDelivery {
  /** Null: it is in no lane. */
  readonly lane: DeliveryLane | null
  /** Oldest first; of very many the newest. */
  readonly attemptList: readonly DeliveryAttempt[]
  /** There were more than are listed. */
  readonly isTruncated: boolean
}

export interface DeliveryLane {
  readonly orderingKey: string
  /** As webhooks carry it: given out at the first lease. */
  readonly sequence: number | null
}

export interface DeliveryAttempt {
  readonly number: number
  readonly settlement: string
  readonly worker: string | null
  readonly startedAt: Date | null
  readonly finishedAt: Date
  readonly executionMs: number | null
  readonly statusCode: number | null
  readonly errorClass: string | null
  readonly error: string | null
  readonly nextAt: Date | null
  /** Of webhooks: what was sent and what came back, without what may be secret. */
  readonly request: Readonly<Record<string, unknown>> | null
  readonly response: Readonly<Record<string, unknown>> | null
  readonly timings: Readonly<Record<string, unknown>> | null
}

/** Each may hold 16 KB of a response. */
const attemptsMax = 100

/** A delivery with every attempt, or undefined. */
export async function getDelivery(db: Database, id: string): Promise<DeliveryDetails | undefined> {
  const found = await findDelivery(db, id)
  if (found === undefined) return undefined
  const { eventId, subscription } = found
  const [delivery] = await readDeliveries(db, [[eventId, subscription]], 'asc')
  const [lane] = await db.run<LaneRow>(laneStatement(db), [eventId, subscription])
  const attempts = await db.run<AttemptRow>(attemptsStatement(db), [eventId, subscription, attemptsMax + 1])
  return (
    delivery && {
      ...delivery,
      lane: lane === undefined ? null : { orderingKey: lane[0], sequence: lane[1] },
      attemptList: attempts.slice(0, attemptsMax).reverse().map(attemptFromRow),
      isTruncated: attempts.length > attemptsMax,
    }
  )
}

/** What an id stands for, if there is such a delivery: its time must be that of its event. */
export async function findDelivery(db: Database, id: string): Promise<DeliveryRequest | undefined> {
  const key = parseDeliveryId(id)
  if (key === undefined) return undefined
  const { eventId, subscriptionNo: subscription } = key
  const rows = await db.run<[eventId: number]>(findStatement(db), [eventId, subscription, id])
  return rows.length === 0 ? undefined : { eventId, subscription }
}

const findStatement = defineStatement(
  'find_delivery',
  `select e.id
  from __schema__.events e
  where e.id = $1 and $2 = any(e.owed) and __schema__.delivery_id(e.created_at, e.id, $2) = $3::uuid`,
)

const laneStatement = defineStatement(
  'read_delivery_lane',
  `select k.ordering_key, (
    select n.sequence from __schema__.lane_numbers n
    where n.event_id = e.id and n.subscription = s.no
    order by n.replays desc
    limit 1)
  from __schema__.events e
  join __schema__.subscriptions s on s.no = $2
  cross join lateral (select __schema__.lane_key(s.key_path, e) as ordering_key) as k
  where e.id = $1 and k.ordering_key is not null`,
)

type LaneRow = [orderingKey: string, sequence: number | null]

/** A record with a token is of an attempt; the others say what was done about the delivery without one. */
const attemptsStatement = defineStatement(
  'read_delivery_attempts',
  `select a.attempt, a.settlement, w.name, coalesce(x.started_at, a.started_at, a.leased_at), a.finished_at,
    a.execution_ms, coalesce(a.status_code, x.status_code), x.error_class, coalesce(x.error, a.reason), a.next_at,
    x.request, x.response, x.status_code, x.timings
  from __schema__.audit a
  left join __schema__.exchanges x
    on x.event_id = a.event_id and x.subscription = a.subscription and x.token = a.token
  left join __schema__.workers w on w.no = a.worker
  where a.event_id = $1 and a.subscription = $2 and a.token is not null
  order by a.id desc
  limit $3`,
)

type Document = Readonly<Record<string, unknown>>

type AttemptRow = [
  number: number,
  settlement: string,
  worker: string | null,
  startedAt: Date | null,
  finishedAt: Date,
  executionMs: number | null,
  statusCode: number | null,
  errorClass: string | null,
  error: string | null,
  nextAt: Date | null,
  request: Document | null,
  response: Document | null,
  answered: number | null,
  timings: Document | null,
]

function attemptFromRow(row: AttemptRow): DeliveryAttempt {
  const [number, settlement, worker, startedAt, finishedAt, executionMs, statusCode, errorClass, error] = row
  const [nextAt, request, response, answered, timings] = row.slice(9) as [
    Date | null,
    Document | null,
    Document | null,
    number | null,
    Document | null,
  ]
  return {
    number,
    settlement,
    worker,
    startedAt,
    finishedAt,
    executionMs,
    statusCode,
    errorClass,
    error,
    nextAt,
    request: request === null ? null : withoutSecrets(request),
    response: response === null ? null : { status: answered, ...withoutSecrets(response) },
    timings,
  }
}

function withoutSecrets(document: Document): Document {
  const { headers } = document
  if (typeof headers !== 'object' || headers === null) return document
  return { ...document, headers: hideSecrets(headers as Document) }
}
