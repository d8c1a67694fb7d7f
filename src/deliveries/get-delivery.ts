import { type Database, defineStatement } from '../db/database.ts'
import { hideSecrets } from '../domain/hidden-headers.ts'
import { parseDeliveryId } from '../domain/id.ts'
import { type ListedDelivery, readDeliveries } from './listed-delivery.ts'
import type { DeliveryRequest } from './repair.ts'

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

type Document = Readonly<Record<string, unknown>>

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
  readonly request: Document | null
  readonly response: Document | null
  readonly timings: Document | null
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
  const values = [eventId, subscription, attemptsMax + 1]
  const { rows: attempts } = await db.query<AttemptRow>(attemptsStatement(db).text, values)
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
  `select a.attempt as number, a.settlement, w.name as worker,
    coalesce(x.started_at, a.started_at, a.leased_at) as "startedAt", a.finished_at as "finishedAt",
    a.execution_ms as "executionMs", coalesce(a.status_code, x.status_code) as "statusCode",
    x.error_class as "errorClass", coalesce(x.error, a.reason) as error, a.next_at as "nextAt",
    x.request, x.response, x.status_code as answered, x.timings
  from __schema__.audit a
  left join __schema__.exchanges x
    on x.event_id = a.event_id and x.subscription = a.subscription and x.token = a.token
  left join __schema__.workers w on w.no = a.worker
  where a.event_id = $1 and a.subscription = $2 and a.token is not null
  order by a.id desc
  limit $3`,
)

interface AttemptRow extends DeliveryAttempt {
  readonly answered: number | null
}

function attemptFromRow({ answered, request, response, ...rest }: AttemptRow): DeliveryAttempt {
  return {
    ...rest,
    request: request && withoutSecrets(request),
    response: response && { status: answered, ...withoutSecrets(response) },
  }
}

function withoutSecrets(document: Document): Document {
  const { headers } = document
  if (typeof headers !== 'object' || headers === null) return document
  return { ...document, headers: hideSecrets(headers as Document) }
}
