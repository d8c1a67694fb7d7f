import { countedRows, type PagedList, startOf, storedRows } from '../core/list-page.ts'
import {
  comparesTime,
  conditionOf,
  type FieldTable,
  firstKeys,
  isOneOf,
  keysFrom,
  Parameters,
} from '../core/list-sql.ts'
import type { Source, Stretch } from '../core/list-walk.ts'
import type { CheckedPaging, Order } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import { choiceOf, type Term } from '../domain/list-terms.ts'

/** What a term asks of a dead letter `l` and its event `e`, which may be gone. */
export const letterFields: FieldTable = {
  subscriber: isOneOf('l.subscription', 'int'),
  event: isOneOf('l.event_id', 'bigint'),
  type: isOneOf('e.type', 'text'),
  kind: isOneOf('l.kind', 'text'),
  buried: comparesTime('l.buried_at'),
}

export interface AskedLetters {
  readonly terms: readonly Term[]
  readonly redriven: 'with' | 'without'
}

/** Dead letters in the order of their ids, which is that of their burial. */
export function deadLetterList(
  reader: Reader,
  { terms, redriven }: AskedLetters,
  paging: CheckedPaging,
): PagedList<string, string> {
  const range = letterRange(terms)
  const isOpen = redriven === 'with' ? 'true' : 'l.redriven_at is null'
  return {
    range,
    after: startOf(paging).place,
    sources: letterSources(terms, redriven),
    isFiltered: terms.length > 0,
    readKey: String,
    numberOf: timeOf,
    placeOf: String,
    timeAt: async (id) => new Date(timeOf(id)),
    counted: countedRows(`select 1 from __schema__.dead_letters l where ${isOpen}`),
    stored: storedRows(redriven === 'with' ? 'dead_letters' : 'dead_letters_kind'),
    ends: async () => {
      const end = (order: Order) =>
        `(select l.id from __schema__.dead_letters l where ${within(range)} order by l.id ${order} limit 1)`
      const { rows } = await reader.query<{ first: string | null; last: string | null }>(
        `select ${end('asc')} as first, ${end('desc')} as last`,
      )
      return [timeOf(rows[0]?.first ?? range.above), timeOf(rows[0]?.last ?? range.below)]
    },
    judge: async ({ keys: ids }) => {
      if (ids.length === 0) return { items: [], rows: 0 }
      const parameters = new Parameters()
      const { rows } = await reader.query<{ ids: string }>(
        `select array(
          select l.id
          from __schema__.dead_letters l
          left join __schema__.events e on e.id = l.event_id
          where l.id = any(${parameters.add(ids)}::uuid[]) and ${isOpen} and ${conditionOf(terms, letterFields, parameters)}
          order by l.id ${paging.order}
        )::text as ids`,
        parameters.values,
      )
      return { items: keysFrom(rows[0]?.ids ?? '{}'), rows: ids.length }
    },
  }
}

/** Each source is one index, asked for every value by itself, so that its order can be used. */
function letterSources(terms: readonly Term[], redriven: AskedLetters['redriven']): Source<string>[] {
  const events = choiceOf(terms, 'event')
  if (events !== undefined) return [lettersWhere('l.event_id', events)]
  if (redriven === 'with') return [lettersWhere('true', [true])]
  const subscriptions = choiceOf(terms, 'subscriber')
  const kinds = lettersWhere(
    'l.redriven_at is null and l.kind',
    choiceOf(terms, 'kind') ?? ['buried', 'expired'],
  )
  return subscriptions === undefined
    ? [kinds]
    : [kinds, lettersWhere('l.redriven_at is null and l.subscription', subscriptions)]
}

function lettersWhere(column: string, values: readonly unknown[]): Source<string> {
  return {
    candidates: ({ stretch, order, size }, parameters) => {
      const queries = values.map(
        (value) => `select l.id as key
          from __schema__.dead_letters l
          where ${column} = ${parameters.add(value)} and ${within(stretch)}`,
      )
      return firstKeys(queries, order, size)
    },
  }
}

function within({ above, below }: Stretch<string>): string {
  return `l.id > '${above}' and l.id < '${below}'`
}

/** An id begins with the time of burial in ms; how it was rounded is left open. */
const roundingMs = 1000

function letterRange(terms: readonly Term[]): Stretch<string> {
  const times = terms.filter(({ field, negated }) => field === 'buried' && !negated)
  const since = times.find(({ operator }) => operator.startsWith('>'))?.values[0]
  const until = times.find(({ operator }) => operator.startsWith('<'))?.values[0]
  return {
    above: since instanceof Date ? idAt(since.getTime() - roundingMs) : idAt(0),
    below:
      until instanceof Date ? idAt(until.getTime() + roundingMs) : 'ffffffff-ffff-ffff-ffff-ffffffffffff',
  }
}

/** Below every id that was drawn at that time. */
function idAt(timeMs: number): string {
  const hex = Math.max(0, timeMs).toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-0000-0000-000000000000`
}

function timeOf(id: string): number {
  return Number.parseInt(id.replace('-', '').slice(0, 12), 16)
}
