import { PosthornError } from '../errors.ts'
import type { Standing, StandingDelivery } from '../operations/standings.ts'

export interface LostLease {
  readonly eventId: number
  /** Null: whichever it may have been. */
  readonly subscription: number | null
}

/** What became of a lease that somebody thought he held. */
export function describeLost(
  { eventId, subscription }: LostLease,
  standing: Standing | undefined,
): PosthornError {
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
