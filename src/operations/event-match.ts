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

export function checkFilter({ status, type, createdFrom, createdTo }: EventFilter): void {
  if (status !== undefined && !eventStatuses.includes(status)) {
    throw badOption('status', `one of ${eventStatuses.join(', ')}`, status)
  }
  if (type !== undefined) checkPattern(type)
  checkTime('createdFrom', createdFrom)
  checkTime('createdTo', createdTo)
}

export async function matchEvents(reader: Reader, filter: EventFilter): Promise<EventMatch> {
  const { tags = [], type, orderingKey, createdFrom, createdTo } = filter
  const conditions: Condition[] = []
  if (tags.length > 0) conditions.push({ on: 'tags', tags: parseTags(tags) ?? [] })
  if (orderingKey !== undefined) conditions.push({ on: 'orderingKey', orderingKey })
  if (type !== undefined) conditions.push(await typeCondition(reader, type))
  return { conditions, createdFrom, createdTo, range: await idRange(reader, filter, publishMs) }
}

/**
 * A publish has the time at which it began and draws its ids while it runs, hence the slack: a single statement
 * that publishes for longer may be missing from the ends of a time range.
 */
const publishMs = 60_000

/** Ids grow with time, so a time range is an id range, found by halving. */
export async function idRange(
  reader: Reader,
  { createdFrom, createdTo }: { createdFrom?: Date | undefined; createdTo?: Date | undefined },
  slackMs: number,
): Promise<IdRange> {
  return {
    low: createdFrom === undefined ? null : await idAt(reader, createdFrom.getTime() - slackMs),
    high: createdTo === undefined ? null : await idAt(reader, createdTo.getTime() + slackMs),
  }
}

async function idAt(reader: Reader, timeMs: number): Promise<number | null> {
  const { rows } = await reader.query<{ id: number | null }>('select __schema__.event_id_at($1) as id', [
    new Date(timeMs),
  ])
  return rows[0]?.id ?? null
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
