import { numberArray } from '../db/array.ts'
import { type Database, defineStatement } from '../db/database.ts'
import { type DeliveryState, eventStatus } from '../domain/status.ts'
import { PosthornError } from '../errors.ts'
import type { SubscriptionCache } from '../subscriptions/subscription-cache.ts'
import type { FoundLease } from './find-leases.ts'

/** Explains to a worker why it does not hold the lease that it claims. */

export interface LostLease {
  readonly eventId: number
  /** Null: the worker has not said which subscription. */
  readonly subscription: number | null
}

/** One error for each lease that is no longer held, with the present state of its deliveries. */
export async function lostErrors(db: Database, leases: readonly LostLease[]): Promise<PosthornError[]> {
  const eventIds = [...new Set(leases.map(({ eventId }) => eventId))]
  const { rows } = await db.query<DeliveryRow>(deliveriesStatement(db).text, [numberArray(eventIds)])
  return leases.map((lease) =>
    describeLost(
      lease,
      rows.filter((row) => row.eventId === lease.eventId),
    ),
  )
}

/** The error for a worker that holds an event through several subscriptions and names none of them. */
export async function ambiguousError(
  subscriptions: Pick<SubscriptionCache, 'numbered'>,
  eventId: number,
  leases: readonly FoundLease[],
): Promise<PosthornError> {
  const found = await Promise.all(leases.map(({ subscription }) => subscriptions.numbered(subscription)))
  const names = found.map((subscription) => subscription?.name).sort()
  return new PosthornError('AMBIGUOUS_LEASE', { eventId, subscriptions: names.join(', ') })
}

function describeLost({ eventId, subscription }: LostLease, rows: readonly DeliveryRow[]): PosthornError {
  const [first] = rows
  if (first === undefined) return new PosthornError('NOT_FOUND', { what: 'event', id: eventId })
  const deliveries = rows.filter((row): row is Delivery => row.subscription !== null)
  const status = eventStatus({ states: deliveries.map(({ state }) => state), unwanted: first.unwanted })
  const meant = deliveries.filter((one) => subscription === null || one.subscription === subscription)
  const state = meant.map(describeDelivery).join(', ') || status
  return new PosthornError('LEASE_LOST', { eventId, state, eventStatus: status })
}

function describeDelivery({ state, worker, name }: Delivery): string {
  const holder = state === 'leased' && worker !== null ? ` by ${worker}` : ''
  return `${state}${holder} in ${name}`
}

interface Delivery {
  readonly eventId: number
  readonly unwanted: boolean
  readonly subscription: number
  readonly name: string
  readonly state: DeliveryState
  /** The worker that holds the delivery, or held it last. */
  readonly worker: string | null
}

/** An event without deliveries has one row without a subscription. */
type DeliveryRow = Delivery | (Pick<Delivery, 'eventId' | 'unwanted'> & { readonly subscription: null })

const deliveriesStatement = defineStatement(
  'deliveries_of_lost_leases',
  `select e.id as "eventId",
    e.owed = '{}' and exists (
      select 1 from __schema__.dead_letters l
      where l.event_id = e.id and l.subscription is null and l.redriven_at is null) as unwanted,
    d.subscription, s.name, d.state, w.name as worker
  from __schema__.events e
  left join __schema__.delivery_states($1::bigint[]) as d on d.event_id = e.id
  left join __schema__.subscriptions s on s.no = d.subscription
  left join __schema__.workers w on w.no = d.worker
  where e.id = any($1)
  order by e.id, d.subscription`,
)
