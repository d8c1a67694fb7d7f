import { badOption, checkTime, type Paging, pagingOptions } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import { checkPattern } from '../domain/pattern.ts'
import { type EventStatus, eventStatuses } from '../domain/status.ts'
import { checkTagFilter, parseTags } from '../domain/tags.ts'

export interface EventFilter extends Paging {
  readonly status?: EventStatus
  /** Any of these. */
  readonly tags?: readonly string[]
  /** A type, `prefix.*`, or `*` for events that have one. */
  readonly type?: string
  readonly orderingKey?: string
  /** Published at or after. */
  readonly createdFrom?: Date
  /** Published before. */
  readonly createdTo?: Date
}

/** What a filter asks of the events table. The status is asked elsewhere. */
export interface EventMatch {
  readonly conditions: readonly Condition[]
  readonly createdFrom: Date | undefined
  readonly createdTo: Date | undefined
  /** What follows from the times and only helps to find their rows. */
  readonly range: IdRange
}

/** From `low`, below `high`. */
export interface IdRange {
  readonly low: number | null
  readonly high: number | null
}

export type Condition =
  | { readonly on: 'tags'; readonly tags: readonly string[] }
  | { readonly on: 'types'; readonly types: readonly string[] }
  /** So many types begin with it that they can't be walked one by one. Empty: every type. */
  | { readonly on: 'prefix'; readonly prefix: string }
  | { readonly on: 'orderingKey'; readonly orderingKey: string }

const filterNames: NamesOf<EventFilter> = {
  ...pagingOptions,
  ...{ status: true, tags: true, type: true, orderingKey: true, createdFrom: true, createdTo: true },
}

export function checkFilter(filter: EventFilter): void {
  checkOptions(filter, filterNames, 'a list of events')
  const { status, tags, type, orderingKey, createdFrom, createdTo } = filter
  if (status !== undefined && !eventStatuses.includes(status)) {
    throw badOption('status', `one of ${eventStatuses.join(', ')}`, status)
  }
  if (tags !== undefined) checkTagFilter(tags)
  if (type !== undefined) checkPattern(type)
  if (orderingKey !== undefined && typeof orderingKey !== 'string') {
    throw badOption('orderingKey', 'text', orderingKey)
  }
  checkTime('createdFrom', createdFrom)
  checkTime('createdTo', createdTo)
}

export async function matchEvents(reader: Reader, filter: EventFilter): Promise<EventMatch> {
  const { tags = [], type, orderingKey, createdFrom, createdTo } = filter
  const conditions: Condition[] = []
  if (tags.length > 0) conditions.push({ on: 'tags', tags: parseTags(tags) ?? [] })
  if (orderingKey !== undefined) conditions.push({ on: 'orderingKey', orderingKey })
  if (type !== undefined) conditions.push(await typeCondition(reader, type))
  return { conditions, createdFrom, createdTo, range: await idRange(reader, filter, 'certain') }
}

/** `certain`: no event outside of it is of that time. `likely`: as narrow as if times grew with ids. */
export async function idRange(
  reader: Reader,
  { createdFrom, createdTo }: { createdFrom?: Date | undefined; createdTo?: Date | undefined },
  width: 'certain' | 'likely',
): Promise<IdRange> {
  if (createdFrom === undefined && createdTo === undefined) return { low: null, high: null }
  const slack = width === 'certain' ? '__schema__.time_disorder()' : `interval '0'`
  const { rows } = await reader.query<IdRange>(
    `select __schema__.event_id_at($1::timestamptz - ${slack}) as low,
      __schema__.event_id_at($2::timestamptz + ${slack}) as high`,
    [createdFrom ?? null, createdTo ?? null],
  )
  return rows[0] as IdRange
}

async function typeCondition(reader: Reader, type: string): Promise<Condition> {
  if (type === '*') return { on: 'prefix', prefix: '' }
  if (!type.endsWith('.*')) return { on: 'types', types: [type] }
  const prefix = type.slice(0, -1)
  const types = await typesBelow(reader, prefix)
  return types === null ? { on: 'prefix', prefix } : { on: 'types', types }
}

/** Each distinct type costs one look-up; beyond this many a prefix is compared row by row instead. */
const typesMax = 1000

/** Goes from one type to the next through the index, whose collation may not keep a prefix together. */
async function typesBelow(reader: Reader, prefix: string): Promise<string[] | null> {
  const { rows } = await reader.query<{ type: string; seen: number }>(
    `with recursive known as (
      (select e.type, 1 as seen from __schema__.events e where e.type is not null order by e.type limit 1)
      union all
      select n.type, k.seen + 1
      from known k
      cross join lateral (
        select e.type from __schema__.events e where e.type > k.type order by e.type limit 1
      ) as n
      where k.seen <= $2
    )
    select k.type, k.seen from known k where starts_with(k.type, $1) or k.seen > $2`,
    [prefix, typesMax],
  )
  return rows.some(({ seen }) => seen > typesMax) ? null : rows.map(({ type }) => type)
}
