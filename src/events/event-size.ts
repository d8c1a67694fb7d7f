import { totalMax } from '../core/paging.ts'
import { planRows, type Reader } from '../core/reader.ts'
import { type Condition, type EventMatch, idRange } from './event-match.ts'
import { idsFrom, indexed, matches, Parameters, stretchOf, within } from './event-sql.ts'

/** How many events match, as far as that can be told without counting. */
export interface MatchSize {
  readonly planned: number
  /** Surely more than a total counts. */
  readonly many: boolean
  /** What each condition leaves, within the time asked for. */
  readonly parts: readonly MatchPart[]
  readonly stored: number
  /** What the time alone leaves of those stored. */
  readonly inTime: number
  /** If it took one. */
  readonly sample: Sample | null
}

export interface MatchPart {
  readonly condition: Condition
  readonly events: number
}

/** The planner may be wrong by half. */
const manyFrom = 2 * totalMax

/**
 * One condition is what the planner has statistics for. Of several it believes that they have nothing to do with
 * each other, which is seldom so: only a sample tells whether many events meet them all.
 */
export async function sizeMatches(reader: Reader, match: EventMatch): Promise<MatchSize> {
  const stored = await planRows(reader, 'select 1 from __schema__.events e', [])
  const inTime = Math.min(stored, await planTime(reader, match, stored))
  const parts: MatchPart[] = []
  for (const condition of match.conditions) {
    const events = await planCondition(reader, condition, stored)
    parts.push({ condition, events: (events * inTime) / Math.max(1, stored) })
  }
  const planned = Math.min(inTime, ...parts.map(({ events }) => events))
  const single = parts.length + (isTimed(match) ? 1 : 0) < 2
  if (single || planned < manyFrom) {
    return { planned, many: single && planned >= manyFrom, parts, stored, inTime, sample: null }
  }
  const sample = await sampleMatches(reader, match, { stored, inTime, planned })
  const share = shareOf(sample.matching, sample.looked, Math.ceil(sample.looked / neighbours))
  return {
    ...{ planned: inTime * share.likely, many: inTime * share.least > totalMax },
    parts,
    stored,
    inTime,
    sample,
  }
}

function isTimed({ createdFrom, createdTo }: EventMatch): boolean {
  return createdFrom !== undefined || createdTo !== undefined
}

/** By id, because that has an index whose ends the planner looks up. */
async function planTime(reader: Reader, match: EventMatch, stored: number): Promise<number> {
  if (!isTimed(match)) return stored
  const range = await idRange(reader, match, 'likely')
  const { above, below } = stretchOf(range, 'asc', null)
  if (above + 1 >= below) return 0
  return planRows(reader, `select 1 from __schema__.events e where ${within({ above, below }, 'e.id')}`, [])
}

function planCondition(reader: Reader, condition: Condition, stored: number): Promise<number> {
  // Of a prefix it knows nothing.
  if (condition.on === 'prefix' && condition.prefix !== '') return Promise.resolve(stored)
  const parameters = new Parameters()
  const text = `select 1 from __schema__.events e where ${indexed(condition, parameters)}`
  return planRows(reader, text, parameters.values)
}

export interface Sample {
  /** How many events of the time asked for were looked at, spread over the table. */
  readonly looked: number
  /** Those of them that match. */
  readonly matching: readonly number[]
}

const sampledPagesMin = 64
const sampledPagesMax = 160
const sampledMatches = 200

/** Enough of the table to have a few hundred matches in it, if that is not too much of it. */
export async function sampleMatches(
  reader: Reader,
  match: EventMatch,
  { stored, inTime, planned }: Pick<MatchSize, 'stored' | 'inTime' | 'planned'>,
): Promise<Sample> {
  const parameters = new Parameters()
  const pages = Math.min(sampledPagesMax, (sampledPagesMin * stored) / Math.max(1, inTime))
  const share = parameters.add(sampledMatches / Math.max(1, planned))
  const { rows } = await reader.query<{ looked: number; matching: string }>(
    `with size as (
      select greatest(1, pg_relation_size('__schema__.events') / current_setting('block_size')::int) as pages
    ),
    sample as materialized (
      select e.id, ${matches({ ...match, createdFrom: undefined, createdTo: undefined }, parameters)} as matches
      from __schema__.events e tablesample system (
        (select least(100, 100 * greatest(${pages}::float8 / s.pages, ${share}::float8)) from size s)
      ) repeatable (1)
      where ${matches({ ...match, conditions: [] }, parameters)}
    )
    select count(*)::int as looked, coalesce(array_agg(s.id) filter (where s.matches), '{}')::text as matching
    from sample s`,
    parameters.values,
  )
  const { looked, matching } = rows[0] as { looked: number; matching: string }
  return { looked, matching: idsFrom(matching) }
}

/**
 * What the share of `hits` among those looked at stands for, and what it surely is at least: three standard
 * deviations less. Events that lie together are alike, so it is their neighbourhoods that count.
 */
export function shareOf(
  hits: readonly number[],
  looked: number,
  neighbourhoods: number,
): { likely: number; least: number } {
  if (looked === 0) return { likely: 0, least: 0 }
  const together = new Map<number, number>()
  for (const id of hits) together.set(neighbourhoodOf(id), (together.get(neighbourhoodOf(id)) ?? 0) + 1)
  const squares = [...together.values()].reduce((sum, count) => sum + count ** 2, 0) / neighbourhoods
  const variance = Math.max(0, squares - (hits.length / neighbourhoods) ** 2)
  const sigma = (neighbourhoods / looked) * Math.sqrt(variance / neighbourhoods) + 1 / looked
  const likely = hits.length / looked
  return { likely, least: Math.max(0, likely - 3 * sigma) }
}

/** About as many as share a page. */
const neighbours = 32

export function neighbourhoodOf(id: number): number {
  return Math.floor(id / neighbours)
}
