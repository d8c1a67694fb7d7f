import type { Order } from '../core/paging.ts'
import type { Condition, EventMatch, IdRange } from './event-match.ts'

/** The values of a statement whose text depends on what is asked. */
export class Parameters {
  readonly values: unknown[] = []

  /** Its place in the text. */
  add(value: unknown): string {
    return `$${this.values.push(value)}`
  }
}

/** A condition about `e` as an index understands it. */
export function indexed(condition: Condition, parameters: Parameters): string {
  switch (condition.on) {
    case 'tags':
      return `e.tags && ${parameters.add(condition.tags)}::text[]`
    case 'types':
      return condition.types.length === 1
        ? `e.type = ${parameters.add(condition.types[0])}`
        : `e.type = any(${parameters.add(condition.types)}::text[])`
    case 'prefix':
      return condition.prefix === ''
        ? 'e.type is not null'
        : `starts_with(e.type, ${parameters.add(condition.prefix)})`
    case 'orderingKey':
      return `e.ordering_key = ${parameters.add(condition.orderingKey)}`
  }
}

/**
 * The same in a form that the planner sees no index for. It takes reading a whole list of tags for cheap and
 * would rather intersect two lists than look at a few rows.
 */
export function plain(condition: Condition, parameters: Parameters): string {
  switch (condition.on) {
    case 'tags':
      return `coalesce(e.tags, '{}') && ${parameters.add(condition.tags)}::text[]`
    case 'types':
      return `(e.type || '') = any(${parameters.add(condition.types)}::text[])`
    case 'prefix':
      return condition.prefix === ''
        ? `(e.type || '') <> ''`
        : `starts_with(e.type || '', ${parameters.add(condition.prefix)})`
    case 'orderingKey':
      return `(e.ordering_key || '') = ${parameters.add(condition.orderingKey)}`
  }
}

/** All that is asked of an event, each condition in plain form but those named. */
export function matches(
  { conditions, createdFrom, createdTo }: EventMatch,
  parameters: Parameters,
  byIndex: readonly Condition[] = [],
): string {
  const texts = conditions.map((one) => (byIndex.includes(one) ? indexed : plain)(one, parameters))
  if (createdFrom !== undefined) texts.push(`e.created_at >= ${parameters.add(createdFrom)}`)
  if (createdTo !== undefined) texts.push(`e.created_at < ${parameters.add(createdTo)}`)
  return texts.join(' and ') || 'true'
}

export function isEverything({ conditions, createdFrom, createdTo }: EventMatch): boolean {
  return conditions.length === 0 && createdFrom === undefined && createdTo === undefined
}

/** Ids have less than 53 bits. */
const idLimit = 2 ** 53

/** What is left of a range: above `above`, below `below`. */
export interface Stretch {
  readonly above: number
  readonly below: number
}

export function stretchOf({ low, high }: IdRange, order: Order, after: number | null): Stretch {
  const above = low === null ? -1 : low - 1
  const below = high ?? idLimit
  if (after === null) return { above, below }
  return order === 'asc' ? { above: Math.max(above, after), below } : { above, below: Math.min(below, after) }
}

/** Whether going on after that id leaves nothing of the range behind. */
export function skipsNothing({ low, high }: IdRange, order: Order, after: number | null): boolean {
  if (after === null) return true
  return order === 'asc' ? low !== null && after < low : high !== null && after >= high
}

export function within({ above, below }: Stretch, column: string): string {
  return `${above < 0 ? 'true' : `${column} > ${above}`} and ${below === idLimit ? 'true' : `${column} < ${below}`}`
}

/** Ids as they come from a statement, as one text: a row each would take ten times as long. */
export function idsFrom(text: string): number[] {
  return text === '{}' ? [] : text.slice(1, -1).split(',').map(Number)
}

/** `id >> 13`, as the index on tags knows ids. */
export function thousandOf(id: number): number {
  return Math.floor(id / 8192)
}
