import { type Total, totalMax } from '../core/paging.ts'
import { planRows, type Reader } from '../core/reader.ts'
import { type DeliverySource, type SourceRequest, sourceOf } from './delivery-sources.ts'
import { type DeliveryWalk, nextKeys } from './delivery-walk.ts'

type Counting = Pick<DeliveryWalk, 'status' | 'subscription' | 'pickedBefore' | 'eventsMax'>

/** Exactly up to 10,000, beyond that by what the first ones are like. */
export async function countDeliveries(reader: Reader, counting: Counting): Promise<Total> {
  const { status, subscription, pickedBefore, eventsMax } = counting
  const source = sourceOf(status)
  const whole = { subscription, order: 'asc', after: null, range: null, pickedBefore } as const
  if (!source.isAlongEvents || subscription === undefined) {
    const count = await countUpTo(reader, source, whole)
    if (count <= totalMax) return { total: count, totalIsEstimate: false }
    return { total: Math.max(count, await guess(reader, source, counting)), totalIsEstimate: true }
  }
  const ids = await idsOf(reader, source)
  if (ids === null) return { total: 0, totalIsEstimate: false }
  const looked = Math.min(eventsMax, ids.last - ids.first + 1)
  const count = await countUpTo(reader, source, { ...whole, range: [ids.first, ids.first + looked - 1] })
  if (looked === ids.last - ids.first + 1 && count <= totalMax)
    return { total: count, totalIsEstimate: false }
  if (count > totalMax) {
    return { total: Math.max(count, await guess(reader, source, counting)), totalIsEstimate: true }
  }
  return { total: Math.round((count * (ids.last - ids.first + 1)) / looked), totalIsEstimate: true }
}

async function countUpTo(reader: Reader, source: DeliverySource, request: SourceRequest): Promise<number> {
  const { rows } = await reader.query<{ count: number }>(
    `select count(*)::int as count
    from (
      select distinct v.event_id, v.subscription
      from (select v.event_id, v.subscription from (${source.query(request)}) as v limit ${totalMax + 1}) as v
    ) as d`,
  )
  return rows[0]?.count ?? 0
}

async function idsOf(
  reader: Reader,
  source: DeliverySource,
): Promise<{ first: number; last: number } | null> {
  const request = { subscription: undefined, after: null, range: null }
  const [first] = await nextKeys(reader, source, { ...request, order: 'asc' }, 1)
  const [last] = await nextKeys(reader, source, { ...request, order: 'desc' }, 1)
  return first === undefined || last === undefined ? null : { first: first[0], last: last[0] }
}

/** The planner takes what an event is owed to for ten, whatever it is. */
async function guess(
  reader: Reader,
  source: DeliverySource,
  { status, subscription }: Counting,
): Promise<number> {
  const short = source.guess(subscription)
  if (short !== null) return (await reader.query<{ count: number }>(short)).rows[0]?.count ?? 0
  const request = { subscription, order: 'asc', after: null, range: null } as const
  if (status !== undefined || subscription !== undefined) {
    return Math.round(await planRows(reader, source.query(request), []))
  }
  const { rows } = await reader.query<{ owed: number }>(
    `select coalesce(avg(cardinality(s.owed)), 0)::float8 as owed
    from (select e.owed from __schema__.events e order by e.id desc limit 1000) as s`,
  )
  const stored = await planRows(reader, 'select 1 from __schema__.events e', [])
  return Math.round(stored * (rows[0]?.owed ?? 0))
}
