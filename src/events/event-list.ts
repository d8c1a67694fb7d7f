import { countedRows, type PagedList, startOf, storedRows } from '../core/list-page.ts'
import { conditionOf, keysFrom, Parameters } from '../core/list-sql.ts'
import { type Candidates, type Judged, type Stretch, stateRows } from '../core/list-walk.ts'
import type { CheckedPaging, Order } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import { numberArray } from '../db/array.ts'
import { choiceOf, type Term } from '../domain/list-terms.ts'
import type { EventStatus } from '../domain/status.ts'
import { eventFields, eventRange, eventSources, within } from './event-terms.ts'
import { finders, type StateFinder, searchStates } from './state-sources.ts'

const findersOf: Record<EventStatus, readonly StateFinder[]> = {
  PENDING: [finders.unfinished],
  PROCESSING: [finders.inFlight],
  COMPLETED: [finders.completed],
  FAILED: [finders.buried, finders.unwanted],
  EXPIRED: [finders.expired],
  COMPLETED_WITH_ERRORS: [finders.buried, finders.expired],
  CANCELLED: [finders.cancelled],
}

/** Events in the order of their ids, as the walk goes through them. */
export async function eventList(
  reader: Reader,
  terms: readonly Term[],
  paging: CheckedPaging,
): Promise<PagedList<number, number>> {
  const { place } = startOf(paging)
  const statuses = choiceOf(terms, 'status') as readonly EventStatus[] | undefined
  const range = await eventRange(reader, terms)
  const search = searchStates(reader, statuses?.flatMap((status) => findersOf[status]) ?? [], undefined)
  return {
    ...alongEvents(reader, range, paging.order),
    after: place === null ? null : Number(place),
    sources: [...(await eventSources(reader, terms)), ...search.sources],
    jump: search.jump,
    windowMin: search.windowMin,
    isFiltered: terms.length > 0,
    counted: countedRows('select 1 from __schema__.events e'),
    stored: storedRows('events'),
    placeOf: String,
    judge: (window) => judgeEvents(reader, terms, window, paging.order),
  }
}

/** What lists have in common that go along the ids of events. */
export function alongEvents(reader: Reader, range: Stretch<number>, order: Order) {
  return {
    range,
    readKey: Number,
    numberOf: (id: number) => id,
    ends: async (): Promise<readonly [number, number]> => {
      const { rows } = await reader.query<{ first: number; last: number }>(
        `select coalesce(min(e.id), 0) as first, coalesce(max(e.id), 0) as last
        from __schema__.events e
        where ${within(range, 'e.id')}`,
      )
      const { first, last } = rows[0] as (typeof rows)[number]
      return [first, last]
    },
    timeAt: async (id: number): Promise<Date | null> => {
      const below = `(select e.created_at from __schema__.events e where e.id <= ${id} order by e.id desc limit 1)`
      const above = `(select e.created_at from __schema__.events e where e.id >= ${id} order by e.id limit 1)`
      const [passed, ahead] = order === 'asc' ? [below, above] : [above, below]
      const { rows } = await reader.query<{ time: Date | null }>(
        `select coalesce(${passed}, ${ahead}) as time`,
      )
      return rows[0]?.time ?? null
    },
  }
}

async function judgeEvents(
  reader: Reader,
  asked: readonly Term[],
  { keys: ids, proven }: Candidates<number>,
  order: Order,
): Promise<Judged<number, number>> {
  const terms = asked.filter((term) => term !== proven)
  if (terms.length === 0 || ids.length === 0) return { items: ids, rows: 0 }
  const parameters = new Parameters()
  const statuses = choiceOf(terms, 'status')
  const seen = seenEvents(ids, terms, parameters)
  const judged =
    statuses === undefined
      ? 'select s.id from seen s where s.fits'
      : `select t.event_id as id
        from __schema__.event_states(array(select s.id from seen s where s.fits)) as t
        where t.status = any(${parameters.add(statuses)}::text[])`
  const { rows } = await reader.query<{ ids: string; deliveries: number }>(
    `with ${seen}
    select array(select j.id from (${judged}) as j order by j.id ${order})::text as ids,
      (select coalesce(sum(s.deliveries), 0)::int from seen s where s.fits) as deliveries`,
    parameters.values,
  )
  const [row] = rows as [(typeof rows)[number]]
  const items = keysFrom(row.ids).map(Number)
  return { items, rows: ids.length + (statuses === undefined ? 0 : stateRows * row.deliveries) }
}

/**
 * A CTE of the events and whether they fit what the terms ask of the event itself. The terms stand among the columns, where
 * the planner sees no index for them: it would rather read a whole list of tags than look at a few rows.
 */
export function seenEvents(ids: readonly number[], terms: readonly Term[], parameters: Parameters): string {
  return `seen as materialized (
      select e.id, e.owed, greatest(cardinality(e.owed), 1) as deliveries,
        ${conditionOf(terms, eventFields, parameters)} as fits
      from __schema__.events e
      where e.id = any(${parameters.add(numberArray(ids))}::bigint[])
    )`
}
