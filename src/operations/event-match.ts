import { checkPattern } from '../domain/pattern.ts'
import { type EventStatus, eventStatuses } from '../domain/status.ts'
import { parseTags } from '../domain/tags.ts'
import { badOption, checkTime, type Paging } from './paging.ts'
import type { Reader } from './reader.ts'

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

/** What a filter asks of the events table, as SQL about `e`. The status is asked elsewhere. */
export interface EventMatch {
  /** `true` where nothing is asked. */
  readonly condition: string
  /** What follows from the condition and only helps to find its rows: an id range. */
  bounds(idColumn: string): string
  readonly values: readonly unknown[]
  /** The types that a prefix stands for, where they are few enough to be walked one by one. */
  readonly types: readonly string[] | null
}

export function checkFilter({ status, type, createdFrom, createdTo }: EventFilter): void {
  if (status !== undefined && !eventStatuses.includes(status)) {
    throw badOption('status', `one of ${eventStatuses.join(', ')}`, status)
  }
  if (type !== undefined) checkPattern(type)
  checkTime('createdFrom', createdFrom)
  checkTime('createdTo', createdTo)
}

export async function matchEvents(reader: Reader, filter: EventFilter): Promise<EventMatch> {
  const { tags, type, orderingKey, createdFrom, createdTo } = filter
  const conditions: string[] = []
  const values: unknown[] = []
  const value = (one: unknown) => `$${values.push(one)}`
  if (tags !== undefined && tags.length > 0) conditions.push(`e.tags && ${value(parseTags(tags))}::text[]`)
  if (orderingKey !== undefined) conditions.push(`e.ordering_key = ${value(orderingKey)}`)
  if (createdFrom !== undefined) conditions.push(`e.created_at >= ${value(createdFrom)}`)
  if (createdTo !== undefined) conditions.push(`e.created_at < ${value(createdTo)}`)

  let types: readonly string[] | null = null
  if (type === '*') conditions.push('e.type is not null')
  else if (type?.endsWith('.*')) {
    const prefix = type.slice(0, -1)
    types = await typesBelow(reader, prefix)
    conditions.push(
      types === null ? `starts_with(e.type, ${value(prefix)})` : `e.type = any(${value(types)}::text[])`,
    )
  } else if (type !== undefined) conditions.push(`e.type = ${value(type)}`)
  const { low, high } = await idRange(reader, filter)
  return {
    condition: conditions.join(' and ') || 'true',
    bounds: (idColumn) =>
      `${low === null ? 'true' : `${idColumn} >= ${low}`} and ${high === null ? 'true' : `${idColumn} < ${high}`}`,
    values,
    types,
  }
}

const typesMax = 100
/** Each distinct type costs one look-up; beyond this many a prefix is compared row by row instead. */
const typesSeenMax = 1000

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
    [prefix, typesSeenMax],
  )
  const many = rows.length > typesMax || rows.some(({ seen }) => seen > typesSeenMax)
  return many ? null : rows.map(({ type }) => type)
}

/**
 * Ids grow with time, so a time range is an id range, found by halving. A publish has the time at which it
 * began and draws its ids while it runs, hence the slack: a single statement that publishes for longer may be
 * missing from the ends of a time range.
 */
const publishSlackMs = 600_000

async function idRange(
  reader: Reader,
  { createdFrom, createdTo }: EventFilter,
): Promise<{ low: number | null; high: number | null }> {
  return {
    low: createdFrom === undefined ? null : await idAt(reader, createdFrom.getTime() - publishSlackMs),
    high: createdTo === undefined ? null : await idAt(reader, createdTo.getTime() + publishSlackMs),
  }
}

async function idAt(reader: Reader, timeMs: number): Promise<number | null> {
  const { rows } = await reader.query<{ id: number | null }>('select __schema__.event_id_at($1) as id', [
    new Date(timeMs),
  ])
  return rows[0]?.id ?? null
}
