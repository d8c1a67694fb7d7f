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
    sources: letterSources(terms, redriven).map((candidates) => ({ candidates })),
    isFiltered: terms.length > 0,
    readKey: String,
    numberOf: timeOf,
    placeOf: String,
    timeAt: async (id) => new Date(timeOf(id)),
    counted: countedRows(`select 1 from __schema__.dead_letters l where ${isOpen}`),
    stored: storedRows(redriven === 'with' ? 'dead_letters' : 'dead_letters_kind'),
    ends: async () => {
      const first = await firstLetter(reader, range, 'asc')
      const last = await firstLetter(reader, range, 'desc')
      return [timeOf(first ?? range.above), timeOf(last ?? range.below)]
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

async function firstLetter(
  reader: Reader,
  range: Stretch<string>,
  order: Order,
): Promise<string | undefined> {
  const { rows } = await reader.query<{ id: string }>(
    `select l.id from __schema__.dead_letters l where ${within(range)} order by l.id ${order} limit 1`,
  )
  return rows[0]?.id
}

type CandidateQuery = Source<string>['candidates']

function letterSources(terms: readonly Term[], redriven: AskedLetters['redriven']): CandidateQuery[] {
  const events = choiceOf(terms, 'event')
  const subscriptions = choiceOf(terms, 'subscriber')
  if (events !== undefined) return [ofEvents(events)]
  if (redriven === 'with') return [byId]
  const kinds = byColumn('l.kind', 'text', choiceOf(terms, 'kind') ?? ['buried', 'expired'])
  return subscriptions === undefined ? [kinds] : [kinds, byColumn('l.subscription', 'int', subscriptions)]
}

const byId: CandidateQuery = ({ stretch, order, size }) =>
  firstKeys(`select l.id as key from __schema__.dead_letters l where ${within(stretch)}`, order, size)

/** An event has few dead letters. */
function ofEvents(events: readonly unknown[]): CandidateQuery {
  return ({ stretch, order, size }, parameters) =>
    firstKeys(
      `select l.id as key
      from __schema__.dead_letters l
      where l.event_id = any(${parameters.add(events)}::bigint[]) and ${within(stretch)}`,
      order,
      size,
    )
}

/** Of those that wait, by an index on the column and the id. */
function byColumn(
  column: 'l.kind' | 'l.subscription',
  type: 'text' | 'int',
  values: readonly unknown[],
): CandidateQuery {
  return ({ stretch, order, size }, parameters) =>
    firstKeys(
      `select n.id as key
      from unnest(${parameters.add(values)}::${type}[]) as v(value)
      cross join lateral (
        select l.id
        from __schema__.dead_letters l
        where l.redriven_at is null and ${column} = v.value and ${within(stretch)}
        order by l.id ${order}
        limit ${size}
      ) as n`,
      order,
      size,
    )
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
