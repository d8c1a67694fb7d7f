import type { Order } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import { numberArray } from '../db/array.ts'
import { defineStatement } from '../db/database.ts'
import { type DeliveryStatus, deliveryStatus } from '../domain/delivery-status.ts'
import type { DeliveryState } from '../domain/status.ts'
import type { DeliveryProgress } from '../events/get-event.ts'
import type { DeliveryKey } from './delivery-sources.ts'

/** Where a delivery stands. */
export interface ListedDelivery extends DeliveryProgress {
  readonly eventId: number
  readonly eventType: string | null
  readonly via: string
  readonly status: DeliveryStatus
  readonly createdAt: Date
}

/** Those of the keys that are owed, in order. */
export async function readDeliveries(
  reader: Pick<Reader, 'run' | 'schema'>,
  keys: readonly DeliveryKey[],
  order: Order,
): Promise<ListedDelivery[]> {
  if (keys.length === 0) return []
  const eventIds = [...new Set(keys.map(([eventId]) => eventId))]
  const values = [
    numberArray(eventIds),
    numberArray(keys.map(([eventId]) => eventId)),
    numberArray(keys.map(([, subscription]) => subscription)),
  ]
  const rows = await reader.run<DeliveryRow>(readStatement(reader), values)
  const sign = order === 'asc' ? 1 : -1
  return rows.map(fromRow).sort((a, b) => sign * (a.eventId - b.eventId || a.subscription - b.subscription))
}

const readStatement = defineStatement(
  'read_deliveries',
  `select __schema__.delivery_id(e.created_at, e.id, d.subscription), e.id, e.type, d.subscription, s.id, s.name, s.via,
    d.state, d.attempts, d.failures, d.next_at, d.last_error, d.last_error_at, d.leased_at, d.leased_until, w.name,
    e.created_at, d.updated_at
  from __schema__.delivery_states($1::bigint[]) as d
  join (select distinct k.event_id, k.subscription from unnest($2::bigint[], $3::int[]) as k(event_id, subscription)) as k
    on k.event_id = d.event_id and k.subscription = d.subscription
  join __schema__.events e on e.id = d.event_id
  join __schema__.subscriptions s on s.no = d.subscription
  left join __schema__.workers w on w.no = d.worker`,
)

type DeliveryRow = [
  id: string,
  eventId: number,
  eventType: string | null,
  subscription: number,
  subscriptionId: string,
  name: string,
  via: string,
  state: DeliveryState,
  attempts: number,
  failures: number,
  nextAt: Date | null,
  lastError: string | null,
  lastErrorAt: Date | null,
  leasedAt: Date | null,
  leasedUntil: Date | null,
  worker: string | null,
  createdAt: Date,
  updatedAt: Date,
]

function fromRow(row: DeliveryRow): ListedDelivery {
  return {
    id: row[0],
    eventId: row[1],
    eventType: row[2],
    subscription: row[3],
    subscriptionId: row[4],
    name: row[5],
    via: row[6],
    status: deliveryStatus({ state: row[7], failures: row[9] }),
    attempts: row[8],
    failures: row[9],
    nextAt: row[10],
    lastError: row[11],
    lastErrorAt: row[12],
    leasedAt: row[13],
    leasedUntil: row[14],
    worker: row[15],
    createdAt: row[16],
    updatedAt: row[17],
  }
}
