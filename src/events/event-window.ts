import type { Order } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import type { EventStatus } from '../domain/status.ts'
import type { Condition, EventMatch } from './event-match.ts'
import type { Members } from './event-sources.ts'
import { matches, Parameters, type Stretch, within } from './event-sql.ts'
import { deliveriesFor, type Judged, judgeCandidates, judgedColumns, judgeMembers } from './event-status.ts'

/** The next events along the ids, up to `last`. */
export interface Window extends Judged {
  readonly seen: number
  readonly last: number | null
  /** Whether anything may come after it. */
  readonly more: boolean
}

/** Which index gives events in the order of their ids: that of their types, their key, or the ids themselves. */
export type Driver = Exclude<Condition, { on: 'tags' | 'prefix' }> | null

export interface WindowRequest {
  readonly match: EventMatch
  readonly status: EventStatus | undefined
  readonly order: Order
  readonly stretch: Stretch
  readonly size: number
}

/** The next `size` events that the driver has; the rest of the filter is asked of each. */
export async function nextMatches(reader: Reader, driver: Driver, request: WindowRequest): Promise<Window> {
  if (driver?.on === 'types' && driver.types.length !== 1) {
    return nextOfTypes(reader, driver.types, request)
  }
  const { match, status, order, stretch, size } = request
  const parameters = new Parameters()
  const { rows } = await reader.query<Omit<Window, 'more'>>(
    `with visited as materialized (
      select e.id, ${deliveriesFor(status)} as deliveries, ${matches(without(match, driver), parameters)} as matches
      from __schema__.events e
      where ${alongDriver(driver, parameters, stretch)}
      order by ${driverOrder(driver, order)}
      limit ${size}
    ),
    candidate as materialized (select v.id, v.deliveries from visited v where v.matches),
    ${judgeCandidates(status, parameters)}
    select (select count(*)::int from visited) as seen, (select ${farthest(order)}(v.id) from visited v) as last,
      ${judgedColumns}`,
    parameters.values,
  )
  const window = rows[0] as Omit<Window, 'more'>
  return { ...window, more: window.seen === size }
}

function without(match: EventMatch, driver: Driver): EventMatch {
  return { ...match, conditions: match.conditions.filter((one) => one !== driver) }
}

function farthest(order: Order): string {
  return order === 'asc' ? 'max' : 'min'
}

/**
 * Whole rows are compared, so that only this index will do: by `type = …` alone the planner might go along the
 * ids instead, in the belief that events of a type are spread evenly.
 */
function alongDriver(driver: Driver, parameters: Parameters, stretch: Stretch): string {
  if (driver === null) return within(stretch, 'e.id')
  return driver.on === 'types'
    ? alongIndex('e.type', parameters.add(driver.types[0]), stretch)
    : `e.ordering_key is not null and ${alongIndex('e.ordering_key', parameters.add(driver.orderingKey), stretch)}`
}

export function alongIndex(column: string, value: string, { above, below }: Stretch): string {
  return `(${column}, e.id) > (${value}, ${above}) and (${column}, e.id) < (${value}, ${below})`
}

function driverOrder(driver: Driver, order: Order): string {
  if (driver === null) return `e.id ${order}`
  return `${driver.on === 'types' ? 'e.type' : 'e.ordering_key'} ${order}, e.id ${order}`
}

/** Type by type: one index scan over several types would have to sort all they have. */
async function nextOfTypes(
  reader: Reader,
  types: readonly string[],
  { match, status, order, stretch, size }: WindowRequest,
): Promise<Window> {
  const parameters = new Parameters()
  const rest = { ...match, conditions: match.conditions.filter(({ on }) => on !== 'types') }
  const each = Math.max(8, Math.ceil((2 * size) / Math.max(1, types.length)))
  const [nearest, comparison] = order === 'asc' ? ['min', '<='] : ['max', '>=']
  const { rows } = await reader.query<Window>(
    `with next as materialized (
      select t.type, c.id, c.deliveries, c.matches
      from unnest(${parameters.add(types)}::text[]) as t(type)
      cross join lateral (
        select e.id, ${deliveriesFor(status)} as deliveries, ${matches(rest, parameters)} as matches
        from __schema__.events e
        where ${alongIndex('e.type', 't.type', stretch)}
        order by e.type ${order}, e.id ${order}
        limit ${each}
      ) as c
    ),
    -- Beyond the end of a type that has more, others would be shown before their turn.
    horizon as materialized (
      select ${nearest}(l.last) as id
      from (select ${farthest(order)}(n.id) as last from next n group by n.type having count(*) = ${each}) as l
    ),
    visited as materialized (
      select n.id, n.deliveries, n.matches
      from next n
      where n.id ${comparison} coalesce((select h.id from horizon h), n.id)
    ),
    candidate as materialized (select v.id, v.deliveries from visited v where v.matches),
    ${judgeCandidates(status, parameters)}
    select (select count(*)::int from visited) as seen, (select ${farthest(order)}(v.id) from visited v) as last,
      (select h.id is not null from horizon h) as more, ${judgedColumns}`,
    parameters.values,
  )
  return rows[0] as Window
}

/** The next `size` members of a status; the filter is asked of each. */
export async function nextMembers(
  reader: Reader,
  members: Members,
  { match, order, stretch, size }: WindowRequest,
): Promise<Window> {
  const parameters = new Parameters()
  const { rows } = await reader.query<Omit<Window, 'more'>>(
    `with member as materialized (
      select m.event_id, bool_or(m.finalized) as finalized
      from (${members.query((column) => within(stretch, column))}) as m
      group by m.event_id
      order by m.event_id ${order}
      limit ${size}
    ),
    ${judgeMembers(members, match, parameters)}
    select (select count(*)::int from member) as seen, (select ${farthest(order)}(m.event_id) from member m) as last,
      ${judgedColumns}`,
    parameters.values,
  )
  const window = rows[0] as Omit<Window, 'more'>
  return { ...window, more: window.seen === size }
}
