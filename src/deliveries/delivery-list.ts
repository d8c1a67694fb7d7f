import { type PagedList, startOf, storedRows } from '../core/list-page.ts'
import {
  comparesTime,
  conditionOf,
  type FieldTable,
  isOneOf,
  keysFrom,
  Parameters,
} from '../core/list-sql.ts'
import { type Judged, stateRows } from '../core/list-walk.ts'
import { type CheckedPaging, type Order, totalMax } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import type { DeliveryStatus } from '../domain/delivery-status.ts'
import { choiceOf, type Term } from '../domain/list-terms.ts'
import { alongEvents, seenEvents } from '../events/event-list.ts'
import { eventRange, eventSources } from '../events/event-terms.ts'
import { finders, type StateFinder, searchStates } from '../events/state-sources.ts'

/** A delivery, as lists are ordered. */
export type DeliveryKey = readonly [eventId: number, subscription: number]

/** What a term asks of the state `d` of a delivery. */
const stateFields: FieldTable = {
  status: isOneOf('__schema__.delivery_status(d.state, d.failures)', 'text'),
  picked: comparesTime('d.leased_at'),
}

const finderOf: Record<DeliveryStatus, StateFinder> = {
  pending: finders.unfinished,
  failed: finders.retried,
  delivering: finders.inFlight,
  delivered: finders.completed,
  dlq: finders.buried,
  expired: finders.expired,
  cancelled: finders.cancelled,
}

/** Deliveries in the order of their events and, of each, of its subscriptions: the walk goes along the events. */
export async function deliveryList(
  reader: Reader,
  terms: readonly Term[],
  paging: CheckedPaging,
): Promise<PagedList<number, DeliveryKey>> {
  const { order } = paging
  const start = startingAt(paging)
  const statuses = (choiceOf(terms, 'status') ?? []) as readonly DeliveryStatus[]
  const subscriptions = choiceOf(terms, 'subscriber')
  const subscription = subscriptions?.length === 1 ? Number(subscriptions[0]) : undefined
  const search = searchStates(
    reader,
    statuses.map((status) => finderOf[status]),
    subscription,
  )
  return {
    ...alongEvents(reader, await eventRange(reader, terms), order),
    after: start.after,
    sources: [...(await eventSources(reader, terms)), ...search.sources],
    jump: search.jump,
    windowMin: search.windowMin,
    isFiltered: terms.length > 0,
    counted: countedDeliveries,
    stored: storedDeliveries,
    placeOf: (key) => key.join('-'),
    judge: async ({ keys }) => {
      const judged = await judgeDeliveries(reader, terms, keys, order)
      return { ...judged, items: judged.items.filter(start.isBehind) }
    },
  }
}

/** A page may have ended between two deliveries of an event: its cursor then says `event-subscription`. */
function startingAt(paging: CheckedPaging): {
  after: number | null
  isBehind: (key: DeliveryKey) => boolean
} {
  const { place } = startOf(paging)
  if (place === null) return { after: null, isBehind: () => true }
  const [event = 0, subscription] = place.split('-').map(Number)
  if (subscription === undefined) return { after: event, isBehind: () => true }
  const sign = paging.order === 'asc' ? 1 : -1
  return {
    after: event - sign,
    isBehind: ([eventId, no]) => eventId !== event || sign * (no - subscription) > 0,
  }
}

async function judgeDeliveries(
  reader: Reader,
  terms: readonly Term[],
  ids: readonly number[],
  order: Order,
): Promise<Judged<number, DeliveryKey>> {
  if (ids.length === 0) return { items: [], rows: 0 }
  const parameters = new Parameters()
  const needsState = terms.some(({ field }) => field in stateFields)
  const subscriptions = choiceOf(terms, 'subscriber') ?? null
  const only = `${parameters.add(subscriptions)}::int[]`
  const judged = needsState
    ? `select d.event_id, d.subscription
        from __schema__.delivery_states(array(select s.id from seen s where s.fits), ${only}) as d
        where ${conditionOf(terms, stateFields, parameters)}`
    : `select s.id as event_id, o.no as subscription
        from seen s
        cross join lateral unnest(s.owed) as o(no)
        where s.fits and (${only} is null or o.no = any(${only}))`
  const each = subscriptions === null ? 's.deliveries' : `least(s.deliveries, ${subscriptions.length})`
  const inOrder = `order by j.event_id ${order}, j.subscription ${order}`
  const { rows } = await reader.query<{ events: string; subscriptions: string; deliveries: number }>(
    `with ${seenEvents(ids, terms, parameters)},
    judged as materialized (${judged})
    select array(select j.event_id from judged j ${inOrder})::text as events,
      array(select j.subscription from judged j ${inOrder})::text as subscriptions,
      (select coalesce(sum(${each}), 0)::int from seen s where s.fits) as deliveries`,
    parameters.values,
  )
  const [row] = rows as [(typeof rows)[number]]
  const numbers = keysFrom(row.subscriptions).map(Number)
  const items = keysFrom(row.events).map((id, at): DeliveryKey => [Number(id), numbers[at] as number])
  return { items, rows: ids.length + (needsState ? stateRows : 1) * row.deliveries }
}

const owed = 'select cardinality(e.owed) as deliveries from __schema__.events e'
const countedDeliveries = `select case when count(*) <= ${totalMax} and coalesce(sum(e.deliveries), 0) <= ${totalMax} then coalesce(sum(e.deliveries), 0) end
    from (${owed} limit ${totalMax + 1}) as e`
/** Takes the newest events for typical. */
const storedDeliveries = `select (${storedRows('events')}) * avg(e.deliveries)
    from (${owed} order by e.id desc limit 1000) as e`
