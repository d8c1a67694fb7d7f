import type { Order } from '../core/paging.ts'
import type { DeliveryStatus } from '../domain/delivery-status.ts'

/** A delivery, as lists are ordered. */
export type DeliveryKey = readonly [eventId: number, subscription: number]

export interface SourceRequest {
  readonly subscription: number | undefined
  readonly order: Order
  readonly after: DeliveryKey | null
  /** Only events from the one to the other. */
  readonly range: readonly [first: number, last: number] | null
  /** Only what was picked before; of what is under way. */
  readonly pickedBefore?: Date | undefined
}

/** Where the deliveries of a status are. It may name some that have left it, or one twice: their states decide. */
export interface DeliverySource {
  /** A query of event_id and subscription. Its numbers are in the text, so that the planner knows what is asked for. */
  query(request: SourceRequest): string
  /** In the order of an index that knows no subscriptions: to find those of one, stretch after stretch is looked at. */
  readonly isAlongEvents: boolean
  /** SQL: how many there are at most, in a few words. Null: as the planner says. */
  guess(subscription: number | undefined): string | null
}

export function sourceOf(status: DeliveryStatus | undefined): DeliverySource {
  return status === undefined ? events : sources[status]
}

const events: DeliverySource = {
  isAlongEvents: true,
  query: (request) =>
    request.subscription === undefined
      ? `select e.id as event_id, o.no as subscription
        from __schema__.events e
        cross join lateral unnest(e.owed) as o(no)
        where ${beyond(request, 'e.id', 'o.no')}`
      : `select e.id as event_id, ${request.subscription} as subscription
        from __schema__.events e
        where ${request.subscription} = any(e.owed) and ${beyond(request, 'e.id', String(request.subscription))}`,
  guess: () => null,
}

function recorded(settlements: string): DeliverySource {
  return {
    isAlongEvents: true,
    query: (request) => `select a.event_id, a.subscription
      from __schema__.audit a
      where a.settlement in (${settlements}) and ${own(request, 'a.subscription')}
        and ${beyond(request, 'a.event_id', 'a.subscription')}`,
    guess: () => null,
  }
}

function letters(kind: string): DeliverySource {
  return {
    isAlongEvents: true,
    query: (request) => `select l.event_id, l.subscription
      from __schema__.dead_letters l
      where l.kind = '${kind}' and l.redriven_at is null and l.subscription is not null
        and ${own(request, 'l.subscription')} and ${beyond(request, 'l.event_id', 'l.subscription')}`,
    guess: () => null,
  }
}

const isTried = `r.failures > 0 and r.event_ids <> '{}'`

const sources: Record<DeliveryStatus, DeliverySource> = {
  delivered: recorded(`'completed'`),
  cancelled: recorded(`'cancelled', 'discarded'`),
  dlq: letters('buried'),
  expired: letters('expired'),
  delivering: {
    isAlongEvents: false,
    query: (request) => `select f.event_id, f.subscription
      from __schema__.in_flight f
      where ${own(request, 'f.subscription')} and ${picked(request, 'f.leased_at')}
        and ${beyond(request, 'f.event_id', 'f.subscription')}`,
    guess: () => null,
  },
  // Only a run's head can have failed.
  failed: {
    isAlongEvents: false,
    query: (request) => `select r.event_ids[1] as event_id, r.subscription
      from __schema__.runs r
      where ${isTried} and ${own(request, 'r.subscription')}
        and (r.state <> 'leased' or r.begun is null or r.event_ids[1] <> all(r.begun))
        and ${beyond(request, 'r.event_ids[1]', 'r.subscription')}`,
    guess: () => null,
  },
  pending: {
    isAlongEvents: false,
    query: (request) => `select u.event_id, u.subscription
      from (${untried(request)}) as u
      where ${beyond(request, 'u.event_id', 'u.subscription')}`,
    guess: (subscription) => `select (
        (select coalesce(sum(cardinality(r.event_ids)), 0) from __schema__.runs r
         where ${own({ subscription }, 'r.subscription')})
        + (select coalesce(sum(cardinality(q.event_ids)), 0) from __schema__.lane_queue q
           where ${own({ subscription }, 'q.subscription')})
        + (select coalesce(sum(cardinality(i.event_ids)), 0) from __schema__.inbox i
           where ${own({ subscription }, 'i.subscription')})
      )::float8 as count`,
  },
}

/** An unnest in the select list streams. What is begun is mostly the front of a run, which is compared at once. */
function untried(request: Pick<SourceRequest, 'subscription'>): string {
  const untriedOf = `case when ${isTried} then r.event_ids[2:] else r.event_ids end`
  return `select unnest(${untriedOf}) as event_id, r.subscription
      from __schema__.runs r
      where (r.state <> 'leased' or r.begun is null) and ${own(request, 'r.subscription')}
      union all
      select unnest(
          case when r.begun = r.event_ids[1:cardinality(r.begun)] then r.event_ids[cardinality(r.begun) + 1:]
            else array(select unnest(r.event_ids) except select unnest(r.begun)) end),
        r.subscription
      from __schema__.runs r
      where r.state = 'leased' and r.begun is not null and ${own(request, 'r.subscription')}
      union all
      select unnest(q.event_ids), q.subscription from __schema__.lane_queue q where ${own(request, 'q.subscription')}
      union all
      select unnest(i.event_ids), i.subscription from __schema__.inbox i where ${own(request, 'i.subscription')}`
}

function own({ subscription }: Pick<SourceRequest, 'subscription'>, column: string): string {
  return subscription === undefined ? 'true' : `${column} = ${subscription}`
}

function picked({ pickedBefore }: SourceRequest, column: string): string {
  return pickedBefore === undefined ? 'true' : `${column} < '${pickedBefore.toISOString()}'`
}

/** The event alone is what an index can find. */
function beyond({ after, order, range }: SourceRequest, eventId: string, subscription: string): string {
  const within = range === null ? 'true' : `${eventId} between ${range[0]} and ${range[1]}`
  if (after === null) return within
  const comparison = order === 'asc' ? '>' : '<'
  return `${within} and ${eventId} ${comparison}= ${after[0]}
        and (${eventId}, ${subscription}) ${comparison} (${after.join(', ')})`
}
