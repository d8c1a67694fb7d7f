import type { Order } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import type { Condition, EventMatch } from './event-match.ts'
import { indexed, Parameters, type Stretch, stretchOf } from './event-sql.ts'
import { alongIndex, type Driver } from './event-window.ts'

/** Where events of a status may come next, for those that have no table of their own. */
export type StatusJump = 'unfinished' | 'completed'

export interface Jump {
  readonly match: EventMatch
  /** Leads itself from one of its events to the next. */
  readonly driver: Driver
  readonly statusJump: StatusJump | null
  readonly order: Order
  readonly after: number
}

/** No event up to there has all that is asked for: where to go on after. Null: none beyond has it. */
export async function jumpAhead(reader: Reader, jump: Jump): Promise<number | null> {
  const { match, driver, statusJump, order } = jump
  let { after } = jump
  for (const condition of match.conditions) {
    if (condition === driver || condition.on === 'prefix') continue
    const next = await nextHaving(reader, condition, { match, order, after })
    if (next === null) return null
    after = before(next, order)
  }
  if (statusJump === null) return after
  const next = await nextByStatus(reader, statusJump, order, after)
  return next === null ? null : before(next, order)
}

function before(id: number, order: Order): number {
  return order === 'asc' ? id - 1 : id + 1
}

interface Place {
  readonly match: EventMatch
  readonly order: Order
  readonly after: number
}

function nextHaving(
  reader: Reader,
  condition: Exclude<Condition, { on: 'prefix' }>,
  { match, order, after }: Place,
): Promise<number | null> {
  const stretch = stretchOf(match.range, order, after)
  switch (condition.on) {
    case 'tags':
      return nextTagged(reader, condition, stretch, order)
    case 'types':
      return nextInIndex(reader, 'e.type', condition.types, stretch, order)
    case 'orderingKey':
      return nextInIndex(reader, 'e.ordering_key', [condition.orderingKey], stretch, order)
  }
}

async function nextInIndex(
  reader: Reader,
  column: 'e.type' | 'e.ordering_key',
  values: readonly string[],
  stretch: Stretch,
  order: Order,
): Promise<number | null> {
  const { rows } = await reader.query<{ id: number | null }>(
    `select ${order === 'asc' ? 'min' : 'max'}(n.id) as id
    from unnest($1::text[]) as v(value)
    cross join lateral (
      select e.id
      from __schema__.events e
      where ${column} is not null and ${alongIndex(column, 'v.value', stretch)}
      order by ${column} ${order}, e.id ${order}
      limit 1
    ) as n`,
    [values],
  )
  return rows[0]?.id ?? null
}

/**
 * Thousand by thousand, of those that have events: after a failover ids jump by millions. Adding nothing keeps the
 * planner from looking for the least id along all ids.
 */
async function nextTagged(
  reader: Reader,
  condition: Condition,
  { above, below }: Stretch,
  order: Order,
): Promise<number | null> {
  const parameters = new Parameters()
  const text = indexed(condition, parameters)
  const beyond = order === 'asc' ? 'e.id >= (t.thousand + 1) << 13' : 'e.id < t.thousand << 13'
  const nextThousand = (from: string) => `(
      select e.id >> 13 from __schema__.events e
      where e.id > ${above} and e.id < ${below} and ${from}
      order by e.id ${order}
      limit 1)`
  const { rows } = await reader.query<{ id: number }>(
    `with recursive t(thousand) as (
      select ${nextThousand('true')}
      union all
      select ${nextThousand(beyond)} from t where t.thousand is not null
    )
    select n.id
    from t
    cross join lateral (
      select ${order === 'asc' ? 'min' : 'max'}(e.id + 0) as id
      from __schema__.events e
      where ${text} and array[e.id >> 13] && array[t.thousand] and e.id + 0 > ${above} and e.id + 0 < ${below}
    ) as n
    where n.id is not null
    limit 1`,
    parameters.values,
  )
  return rows[0]?.id ?? null
}

async function nextByStatus(
  reader: Reader,
  statusJump: StatusJump,
  order: Order,
  after: number,
): Promise<number | null> {
  const direction = order === 'asc' ? 'next' : 'previous'
  const { rows } = await reader.query<{ id: number | null }>(
    `select __schema__.${direction}_${statusJump}($1) as id`,
    [after],
  )
  return rows[0]?.id ?? null
}
