import type { Term } from '../domain/list-terms.ts'
import type { Order } from './paging.ts'

/** The values of a statement whose text depends on what is asked. */
export class Parameters {
  readonly values: unknown[] = []

  /** The place of the value in the text. */
  add(value: unknown): string {
    return `$${this.values.push(value)}`
  }
}

/** SQL for a term, negation aside. The text must not depend on the term's values: those are parameters. */
export type Condition = (term: Term, parameters: Parameters) => string

export type FieldTable = Readonly<Record<string, Condition>>

/** One SQL condition for all terms whose field is in the table. */
export function conditionOf(terms: readonly Term[], fields: FieldTable, parameters: Parameters): string {
  const texts = terms.flatMap((term) => {
    const text = fields[term.field]?.(term, parameters)
    if (text === undefined) return []
    return term.negated ? [`not coalesce(${text}, false)`] : [text]
  })
  return texts.join(' and ') || 'true'
}

export function isOneOf(column: string, type: 'text' | 'int' | 'bigint'): Condition {
  return ({ values }, parameters) => `${column} = any(${parameters.add(values)}::${type}[])`
}

/** A time, compared by any operator but `:`. */
export function comparesTime(column: string): Condition {
  return ({ operator, values }, parameters) =>
    `${column} ${operator} ${parameters.add(values[0])}::timestamptz`
}

/**
 * The first keys of some queries together, as one text, and the last of them if more may follow. Each query selects `key` by an
 * index, and is bounded by itself: the planner would rather sort all that two indexes have than merge them.
 */
export function firstKeys(queries: readonly string[], order: Order, size: number): string {
  const inOrder = `order by k.key ${order} limit ${size}`
  const each = queries.map((query) => `(select k.key from (${query}) as k ${inOrder})`)
  return `select c.keys::text as keys, c.keys[${size}]::text as reached
    from (select array(select k.key from (${each.join(' union all ')}) as k ${inOrder}) as keys) as c`
}

/** Keys as they come from a statement, as one text: a row for each would take ten times as long. */
export function keysFrom(text: string): string[] {
  return text === '{}' ? [] : text.slice(1, -1).split(',')
}
