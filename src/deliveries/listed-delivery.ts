import type { Order } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import { numberArray } from '../db/array.ts'
import { defineStatement } from '../db/database.ts'
import type { DeliveryStatus } from '../domain/delivery-status.ts'
import type { DeliveryProgress } from '../events/get-event.ts'
import type { DeliveryKey } from './delivery-list.ts'

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
  reader: Pick<Reader, 'query' | 'schema'>,
  keys: readonly DeliveryKey[],
  order: Order,
): Promise<ListedDelivery[]> {
  if (keys.length === 0) return []
  const eventIds = [...new Set(keys.map(([eventId]) => eventId))]
  const values = [
    numberArray(eventIds),
    numberArray(keys.map(([eventId]) => eventId)),
    numberArray(keys.map(([, subscription]) => subscription)),
    numberArray([...new Set(keys.map(([, subscription]) => subscription))]),
  ]
  const { text } = readStatement(reader)
  const { rows } = await reader.query<ListedDelivery>(text, values)
  const sign = order === 'asc' ? 1 : -1
  return rows.sort((a, b) => sign * (a.eventId - b.eventId || a.subscription - b.subscription))
}

const readStatement = defineStatement(
  'read_deliveries',
  `select __schema__.delivery_id(e.created_at, e.id, d.subscription) as id, e.id as "eventId", e.type as "eventType",
    d.subscription, s.id as "subscriptionId", s.name, s.via, __schema__.delivery_status(d.state, d.failures) as status,
    d.attempts, d.failures, d.next_at as "nextAt", d.last_error as "lastError", d.last_error_at as "lastErrorAt",
    d.leased_at as "leasedAt", d.leased_until as "leasedUntil", w.name as worker, e.created_at as "createdAt",
    d.updated_at as "updatedAt"
  from __schema__.delivery_states($1::bigint[], $4::int[]) as d
  join (select distinct k.event_id, k.subscription from unnest($2::bigint[], $3::int[]) as k(event_id, subscription)) as k
    on k.event_id = d.event_id and k.subscription = d.subscription
  join __schema__.events e on e.id = d.event_id
  join __schema__.subscriptions s on s.no = d.subscription
  left join __schema__.workers w on w.no = d.worker`,
)
