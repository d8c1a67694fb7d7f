import { type Total, totalMax } from '../core/paging.ts'
import { planRows, type Reader } from '../core/reader.ts'
import type { EventStatus } from '../domain/status.ts'
import type { EventMatch } from './event-match.ts'
import { type MatchSize, neighbourhoodOf, sampleMatches, shareOf } from './event-size.ts'
import type { Members } from './event-sources.ts'
import { stretchOf, within } from './event-sql.ts'
import { havingStatus } from './event-status.ts'
import { type Path, walkEvents } from './event-walk.ts'

/** So many more are looked at before a total that may be below 10,000 is estimated all the same. */
const examinedMax = 8192

/** How many events a walk would find: exactly up to 10,000, beyond that by statistics and a sample. */
export async function countEvents(reader: Reader, path: Path, size: MatchSize): Promise<Total> {
  const { match, status, members } = path
  if (status === undefined) return { total: Math.round(size.planned), totalIsEstimate: true }
  const guess =
    members === null
      ? await guessMatches(reader, { match, status, size })
      : await guessMembers(reader, path, members)
  const estimate = { total: Math.round(guess.likely), totalIsEstimate: true }
  if (guess.least > totalMax || guess.likely > examinedMax / 2) return estimate

  const walk = { path, order: 'asc', after: null, count: totalMax + 1, examinedMax } as const
  const { ids, end } = await walkEvents(reader, walk)
  if (end === 'exhausted') return { total: ids.length, totalIsEstimate: false }
  return { ...estimate, total: Math.max(ids.length, estimate.total) }
}

/** How many there are, and at least. */
interface Guess {
  readonly likely: number
  readonly least: number
}

/** The planner may be wrong by a quarter. */
const plannerShare = 0.8

const judgedMax = 200

/** Some of the events that match stand for all. */
async function guessMatches(
  reader: Reader,
  { match, status, size }: { match: EventMatch; status: EventStatus; size: MatchSize },
): Promise<Guess> {
  const { matching } = size.sample ?? (await sampleMatches(reader, match, size))
  const judged = spread(matching, judgedMax)
  const having = await havingStatus(reader, judged, status)
  const share = shareOf(having, judged.length, new Set(judged.map(neighbourhoodOf)).size)
  return { likely: size.planned * share.likely, least: plannerShare * size.planned * share.least }
}

/** So many, evenly. */
function spread(ids: readonly number[], count: number): number[] {
  if (ids.length <= count) return [...ids]
  return Array.from({ length: count }, (_, at) => ids[Math.floor((at * ids.length) / count)] as number)
}

/** So many members at each end stand for all. */
const edge = 300

async function guessMembers(reader: Reader, path: Path, members: Members): Promise<Guess> {
  const walk = { path, after: null, count: Number.POSITIVE_INFINITY, examinedMax: edge } as const
  const oldest = await walkEvents(reader, { ...walk, order: 'asc' })
  if (oldest.end === 'exhausted') return { likely: oldest.ids.length, least: 0 }
  const newest = await walkEvents(reader, { ...walk, order: 'desc' })
  const stretch = stretchOf(path.match.range, 'asc', null)
  const planned = await planRows(
    reader,
    members.query((column) => within(stretch, column)),
    [],
  )
  const examined = oldest.examined + newest.examined
  const share = shareOf([...oldest.ids, ...newest.ids], examined, examined)
  return { likely: planned * share.likely, least: plannerShare * planned * share.least }
}
