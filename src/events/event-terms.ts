import { comparesTime, type FieldTable, firstKeys, isOneOf, type Parameters } from '../core/list-sql.ts'
import type { Source, Stretch } from '../core/list-walk.ts'
import type { Reader } from '../core/reader.ts'
import { choiceOf, type Term } from '../domain/list-terms.ts'

/** The SQL of a term, for an event `e`. A new field is a row here and, if an index has it, a source below. */
export const eventFields: FieldTable = {
  event: isOneOf('e.id', 'bigint'),
  type: ({ values }, parameters) =>
    `(${values.map((value) => typeCondition(String(value), parameters)).join(' or ')})`,
  tag: ({ values }, parameters) => `e.tags && ${parameters.add(values)}::text[]`,
  key: isOneOf('e.ordering_key', 'text'),
  created: comparesTime('e.created_at'),
  subscriber: ({ values }, parameters) => `e.owed && ${parameters.add(values)}::int[]`,
}

function typeCondition(pattern: string, parameters: Parameters): string {
  if (pattern === '*') return 'e.type is not null'
  return pattern.endsWith('.*')
    ? `starts_with(e.type, ${parameters.add(pattern.slice(0, -1))})`
    : `e.type = ${parameters.add(pattern)}`
}

/** Ids have less than 53 bits. */
const idLimit = 2 ** 53

/** Ids that may have this time. Times do not strictly grow with ids, so the range is wide, and each event's own time is judged as well. */
export async function eventRange(reader: Reader, terms: readonly Term[]): Promise<Stretch<number>> {
  const ids = choiceOf(terms, 'event')?.map(Number)
  if (ids !== undefined) return { above: Math.min(...ids) - 1, below: Math.max(...ids) + 1 }
  const times = terms.filter(({ field, negated }) => field === 'created' && !negated)
  if (times.length === 0) return { above: 0, below: idLimit }
  const from = times.find(({ operator }) => operator.startsWith('>'))?.values[0]
  const to = times.find(({ operator }) => operator.startsWith('<'))?.values[0]
  const { rows } = await reader.query<{ low: number | null; high: number | null }>(
    `select __schema__.event_id_at($1::timestamptz - __schema__.time_disorder()) as low,
      __schema__.event_id_at($2::timestamptz + __schema__.time_disorder()) as high`,
    [from ?? null, to ?? null],
  )
  const { low, high } = rows[0] as (typeof rows)[number]
  return { above: low === null ? 0 : low - 1, below: high ?? idLimit }
}

export function within({ above, below }: Stretch<number>, column: string): string {
  return `${column} > ${above} and ${column} < ${below}`
}

/** The sources: all events, and those that an index finds by type, by key or by a tag. */
export async function eventSources(reader: Reader, terms: readonly Term[]): Promise<Source<number>[]> {
  const sources: Source<number>[] = [{ candidates: byId }]
  for (const term of terms.filter(({ operator, negated }) => operator === ':' && !negated)) {
    if (term.field === 'key')
      sources.push({ candidates: byColumn('e.ordering_key', term.values), proves: term })
    if (term.field === 'tag') sources.push({ candidates: byTags(term.values), proves: term })
    const types = term.field === 'type' ? await typesOf(reader, term.values.map(String)) : undefined
    if (types !== undefined) sources.push({ candidates: byColumn('e.type', types), proves: term })
  }
  return sources
}

type CandidateQuery = Source<number>['candidates']

const byId: CandidateQuery = ({ stretch, order, size }) =>
  firstKeys([`select e.id as key from __schema__.events e where ${within(stretch, 'e.id')}`], order, size)

/**
 * Compares whole rows, so that the planner must use the index on the column and the id. With `type = …` alone it might go along
 * the ids, because it believes that events of a type are spread evenly.
 */
function byColumn(column: 'e.type' | 'e.ordering_key', values: readonly unknown[]): CandidateQuery {
  return ({ stretch: { above, below }, order, size }, parameters) =>
    firstKeys(
      [
        `select n.id as key
      from unnest(${parameters.add(values)}::text[]) as v(value)
      cross join lateral (
        select e.id
        from __schema__.events e
        where ${column} is not null and (${column}, e.id) > (v.value, ${above}) and (${column}, e.id) < (v.value, ${below})
        order by ${column} ${order}, e.id ${order}
        limit ${size}
      ) as n`,
      ],
      order,
      size,
    )
}

/** One call looks at this many blocks of 8,192 ids at most. */
const blocksMax = 250

/**
 * The index on tags has no order, but it has the block of ids that an event is in. So the source goes block by block, through the
 * blocks that have events: ids may jump by millions.
 */
function byTags(tags: readonly unknown[]): CandidateQuery {
  return ({ stretch, order, size }, parameters) => {
    const nextBlock = (from: string) => `(
        select e.id >> 13 from __schema__.events e
        where ${within(stretch, 'e.id')} and ${from}
        order by e.id ${order}
        limit 1)`
    const beyond = order === 'asc' ? 'e.id >= (b.block + 1) << 13' : 'e.id < b.block << 13'
    const edge = order === 'asc' ? '((max(f.block) + 1) << 13) - 1' : 'min(f.block) << 13'
    return `with recursive b(block, at) as (
        select ${nextBlock('true')}, 1
        union all
        select ${nextBlock(beyond)}, b.at + 1 from b where b.block is not null and b.at < ${blocksMax}
      ),
      f as materialized (
        select b.block, b.at, n.id
        from b
        left join lateral (
          select e.id
          from __schema__.events e
          where e.tags && ${parameters.add(tags)}::text[] and array[e.id >> 13] && array[b.block]
            and e.id + 0 > ${stretch.above} and e.id + 0 < ${stretch.below}
          order by e.id + 0 ${order}
        ) as n on true
        where b.block is not null
        limit ${size + blocksMax}
      )
      select c.keys::text as keys,
        coalesce(c.keys[${size}], case when c.blocks = ${blocksMax} then c.edge end)::text as reached
      from (
        select array(select f.id from f where f.id is not null order by f.id ${order} limit ${size}) as keys,
          max(f.at) as blocks, ${edge} as edge
        from f
      ) as c`
  }
}

/** At most this many distinct types are looked up, */
const typesMax = 200
/** and at most this many may match the patterns: each costs an index scan in every window. */
const typesMeantMax = 16

/** The types that match the patterns; undefined: they are so many that their events are everywhere. */
async function typesOf(reader: Reader, texts: readonly string[]): Promise<readonly string[] | undefined> {
  const prefixes = texts.filter((text) => text.endsWith('*')).map((text) => text.slice(0, -1))
  if (prefixes.length === 0) return texts
  // Goes from one type to the next through the index. Its collation may not keep types with one prefix together.
  const { rows } = await reader.query<{ type: string }>(
    `with recursive known(type, seen) as (
      (select e.type, 1 from __schema__.events e where e.type is not null order by e.type limit 1)
      union all
      select n.type, k.seen + 1
      from known k
      cross join lateral (
        select e.type from __schema__.events e where e.type > k.type order by e.type limit 1
      ) as n
      where k.seen <= $1
    )
    select k.type from known k`,
    [typesMax],
  )
  if (rows.length > typesMax) return undefined
  const known = rows.map(({ type }) => type)
  const meant = known.filter((type) => prefixes.some((prefix) => type.startsWith(prefix)))
  const types = [...new Set([...texts.filter((text) => !text.endsWith('*')), ...meant])]
  return types.length > typesMeantMax ? undefined : types
}
