import type { Database } from '../db/database.ts'
import { PosthornError } from '../errors.ts'
import type { SubscriptionCache } from '../subscriptions/subscription-cache.ts'
import type { FoundLease } from './find-leases.ts'
import { readStandings, type Standing, type StandingDelivery } from './standings.ts'

export interface LostLease {
  readonly eventId: number
  /** Null: whichever it may have been. */
  readonly subscription: number | null
}

/** The errors for leases that are no longer held, with what has become of the deliveries. */
export async function lostErrors(db: Database, leases: readonly LostLease[]): Promise<PosthornError[]> {
  const standings = await readStandings(
    db,
    leases.map(({ eventId }) => eventId),
  )
  return leases.map((lease) => describeLost(lease, standings.get(lease.eventId)))
}

/** The error for a worker that holds an event through several subscriptions and names none. */
export async function ambiguousError(
  subscriptions: Pick<SubscriptionCache, 'numbered'>,
  eventId: number,
  leases: readonly FoundLease[],
): Promise<PosthornError> {
  const found = await Promise.all(leases.map(({ subscription }) => subscriptions.numbered(subscription)))
  const names = found.map((subscription) => subscription?.name).sort()
  return new PosthornError('AMBIGUOUS_LEASE', { eventId, subscriptions: names.join(', ') })
}

function describeLost({ eventId, subscription }: LostLease, standing: Standing | undefined): PosthornError {
  if (standing === undefined) return new PosthornError('NOT_FOUND', { what: 'event', id: eventId })
  const { status: eventStatus, deliveries } = standing
  const meant = deliveries.filter((one) => subscription === null || one.subscription === subscription)
  const state = meant.map(describeDelivery).join(', ') || eventStatus
  return new PosthornError('LEASE_LOST', { eventId, state, eventStatus })
}

function describeDelivery({ state, worker, name }: StandingDelivery): string {
  const holder = state === 'leased' && worker !== null ? ` by ${worker}` : ''
  return `${state}${holder} in ${name}`
}
