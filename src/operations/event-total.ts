import type { EventStatus } from '../domain/status.ts'
import type { EventMatch } from './event-match.ts'
import { type EventSource, planMatches } from './event-sources.ts'
import { walkEvents } from './event-walk.ts'
import { type Total, totalMax } from './paging.ts'
import { planRows, type Reader } from './reader.ts'

export interface Counted {
  readonly source: Exclude<EventSource, { kind: 'gathered' }>
  readonly match: EventMatch
  readonly status: EventStatus | undefined
}

/** A guess of so many is surely more than can be counted. */
const sureFrom = 5 * totalMax
/** A walk that counts gives up after looking at so many; only then a total below 10,000 is an estimate. */
const examinedMax = 2 * totalMax

/** How many events match: exactly up to 10,000, beyond that by the planner's statistics and a sample. */
export async function countEvents(reader: Reader, counted: Counted): Promise<Total> {
  switch (counted.source.kind) {
    case 'every':
      return countMatches(reader, counted.match)
    case 'few':
    case 'walked':
      return countSampling(reader, counted)
    case 'walked members':
      return countMembers(reader, counted, await planRows(reader, counted.source.members.query, []))
  }
}

async function countMatches(reader: Reader, match: EventMatch): Promise<Total> {
  const planned = await planMatches(reader, match)
  if (planned >= sureFrom) return { total: planned, totalIsEstimate: true }
  const { rows } = await reader.query<{ count: number }>(
    `select count(*)::int as count
    from (
      select 1 from __schema__.events e where ${match.condition} and ${match.bounds('e.id')} limit ${totalMax + 1}
    ) as counted`,
    match.values,
  )
  const count = rows[0]?.count ?? 0
  if (count <= totalMax) return { total: count, totalIsEstimate: false }
  return { total: Math.max(count, planned), totalIsEstimate: true }
}

async function countSampling(reader: Reader, counted: Counted): Promise<Total> {
  const planned = await planMatches(reader, counted.match)
  const sample = planned > totalMax ? await sampleEvents(reader, counted, planned) : nothing
  return estimate(planned, sample) ?? countWalking(reader, counted, planned, sample)
}

/** So many members at each end stand for all. */
const edge = 300

async function countMembers(reader: Reader, counted: Counted, planned: number): Promise<Total> {
  const walk = { ...counted, after: null, count: Number.POSITIVE_INFINITY, examinedMax: edge } as const
  const oldest = await walkEvents(reader, { ...walk, order: 'asc' })
  if (oldest.end === 'exhausted') return { total: oldest.ids.length, totalIsEstimate: false }
  const newest = await walkEvents(reader, { ...walk, order: 'desc' })
  const sample = {
    sampled: oldest.examined + newest.examined,
    count: oldest.ids.length + newest.ids.length,
  }
  return estimate(planned, sample) ?? countWalking(reader, counted, planned, sample)
}

interface Sample {
  readonly sampled: number
  readonly count: number
}

const nothing: Sample = { sampled: 0, count: 0 }

/** Only if there are surely more than can be counted: the planner may be wrong by a quarter, the sample by 4 σ. */
function estimate(planned: number, { sampled, count }: Sample): Total | undefined {
  if (sampled === 0) return undefined
  const share = count / sampled
  const sigma = Math.sqrt((share * (1 - share)) / sampled + 1 / sampled ** 2)
  if (planned * (share - 4 * sigma) < 1.25 * totalMax) return undefined
  return { total: Math.round(planned * share), totalIsEstimate: true }
}

async function countWalking(
  reader: Reader,
  counted: Counted,
  planned: number,
  { sampled, count }: Sample,
): Promise<Total> {
  const walk = { ...counted, order: 'asc', after: null, count: totalMax + 1, examinedMax } as const
  const { ids, end } = await walkEvents(reader, walk)
  if (end === 'exhausted') return { total: ids.length, totalIsEstimate: false }
  const likely = sampled === 0 ? 0 : Math.round((planned * count) / sampled)
  return { total: Math.max(ids.length, likely), totalIsEstimate: true }
}

const sampledPages = 60
const sampledRows = 300

/** A few hundred of the matching events, spread over the table, and how many of them have the status. */
async function sampleEvents(reader: Reader, { match, status }: Counted, planned: number): Promise<Sample> {
  const values: unknown[] = [...match.values]
  const { rows } = await reader.query<Sample>(
    `with size as (
      select greatest(c.relpages, 1) as pages
      from pg_class c
      where c.oid = '__schema__.events'::regclass
    ),
    sample as materialized (
      select e.id
      from __schema__.events e tablesample system (
        (select least(100, 100 * greatest(${sampledPages}.0 / s.pages, ${sampledRows} / $${values.push(planned)}::float8)) from size s)
      ) repeatable (1)
      where ${match.condition}
      order by hashint8(e.id)
      limit ${sampledRows}
    )
    select (select count(*)::int from sample) as sampled,
      (select count(*)::int
       from __schema__.event_statuses(array(select s.id from sample s)) as s
       where s.status = $${values.push(status)}) as count`,
    values,
  )
  return rows[0] as Sample
}
