import type { Order } from '../core/paging.ts'
import { planRows, type Reader } from '../core/reader.ts'
import { numberArray } from '../db/array.ts'
import type { EventStatus } from '../domain/status.ts'
import type { Condition, EventMatch } from './event-match.ts'
import type { MatchSize } from './event-size.ts'
import type { Members } from './event-sources.ts'
import { idsFrom, matches, Parameters, stretchOf, thousandOf, within } from './event-sql.ts'
import { deliveriesFor, type Judged, judgeCandidates, judgeMembers, lookAtEach } from './event-status.ts'
import { alongIndex } from './event-window.ts'

export interface Gathering {
  readonly match: EventMatch
  readonly order: Order
  readonly after: number | null
  /** How many ids are wanted beyond `after`. */
  readonly count: number
}

export interface Gathered {
  readonly ids: number[]
  readonly total: number
}

export interface MatchGathering {
  readonly size: MatchSize
  readonly status: EventStatus | undefined
  readonly max: number
}

/** All events that match and have the status: the first of them, and how many they are. Null if over `max` match. */
export async function gatherMatches(
  reader: Reader,
  gathering: Gathering,
  { size, status, max }: MatchGathering,
): Promise<Gathered | null> {
  const { match } = gathering
  const parameters = new Parameters()
  const byIndex = worthAnIndex(size)
  const { rows } = await reader.query<PageRow & { matching: number }>(
    // A limit on `candidate` would make the planner believe that it soon has enough, whichever way it looks.
    `with candidate as materialized (
      select e.id, ${deliveriesFor(status)} as deliveries
      from __schema__.events e
      where ${matches(match, parameters, byIndex)} and ${alongOne(match, byIndex, parameters)}
        and ${byIndex.some(({ on }) => on === 'tags') ? withinThousands(match, parameters) : 'true'}
    ),
    ${judgeCandidates(status, parameters, max + 1)}
    select (select count(*)::int from judged) as matching, ${pageColumns(gathering)}`,
    parameters.values,
  )
  const row = rows[0] as PageRow & { matching: number }
  return row.matching > max ? null : pageOf(reader, gathering, row, status)
}

/** So few rows are soon looked at one by one. */
const fewRows = 4000
/** Looking at a row costs as much as reading so many entries of an index. */
const entriesPerRow = 20

function worthAnIndex({ parts, inTime }: MatchSize): Condition[] {
  const known = parts.filter(({ condition }) => condition.on !== 'prefix')
  const least = Math.min(inTime, ...known.map(({ events }) => events))
  if (inTime <= fewRows) return []
  const narrowest = known.find(({ events }) => events === least)
  if (narrowest === undefined) return []
  if (least <= fewRows) return [narrowest.condition]
  return known.filter(({ events }) => events <= entriesPerRow * least).map(({ condition }) => condition)
}

/**
 * Where one index is worth it, the range of ids is asked of that index: the planner would rather read all rows of
 * the range, in the belief that few of them match.
 */
function alongOne(
  match: EventMatch,
  [only, ...others]: readonly Condition[],
  parameters: Parameters,
): string {
  const stretch = stretchOf(match.range, 'asc', null)
  if (others.length === 0 && only?.on === 'types' && only.types.length === 1) {
    return alongIndex('e.type', parameters.add(only.types[0]), stretch)
  }
  if (others.length === 0 && only?.on === 'orderingKey') {
    return alongIndex('e.ordering_key', parameters.add(only.orderingKey), stretch)
  }
  return within(stretch, 'e.id')
}

const thousandsMax = 2000

/** The tags' index knows ids by their thousands: within a time range only those are read. */
function withinThousands({ range: { low, high } }: EventMatch, parameters: Parameters): string {
  if (low === null || high === null) return 'true'
  const first = thousandOf(low)
  const count = thousandOf(high) - first + 1
  if (count > thousandsMax) return 'true'
  const thousands = Array.from({ length: Math.max(0, count) }, (_, at) => first + at)
  return `array[e.id >> 13] && ${parameters.add(numberArray(thousands))}::bigint[]`
}

export interface MemberGathering {
  readonly members: Members
  readonly status: EventStatus
  readonly eventsMax: number
  /** An event that is owed several times is a member as often. */
  readonly rowsMax: number
}

/** All members of a status that match are judged at once. Null if they are more than that. */
export async function gatherMembers(
  reader: Reader,
  gathering: Gathering,
  { members, status, eventsMax, rowsMax }: MemberGathering,
): Promise<Gathered | null> {
  const { match } = gathering
  const parameters = new Parameters()
  const bounded = (column: string) => within(stretchOf(match.range, 'asc', null), column)
  // The planner may not know that they are many, but if it says so, they were.
  if ((await planRows(reader, members.base(bounded), [])) > rowsMax) return null
  const { rows } = await reader.query<PageRow & { few: boolean }>(
    `with member as materialized (
      select m.event_id, m.finalized from (${members.whole(bounded)}) as m limit ${rowsMax + 1}
    ),
    few as materialized (
      select case
          when count(*) > ${rowsMax} then false
          when count(*) <= ${eventsMax} then true
          else (select count(distinct m.event_id) <= ${eventsMax} from member m)
        end as is_so
      from member
    ),
    ${judgeMembers(members, match, parameters, '(select f.is_so from few f)')}
    select (select f.is_so from few f) as few, ${pageColumns(gathering)}`,
    parameters.values,
  )
  const { few, ...row } = rows[0] as PageRow & { few: boolean }
  return few ? pageOf(reader, gathering, row, status) : null
}

interface PageRow extends Judged {
  /** How many of them are sure; `sure` has only the page's. */
  readonly total: number
}

function pageColumns({ order, after, count }: Gathering): string {
  const beyond = stretchOf({ low: null, high: null }, order, after)
  return `(select count(*)::int from judged j where j.matches) as total,
      array(
        select j.id
        from judged j
        where j.matches and ${within(beyond, 'j.id')}
        order by j.id ${order}
        limit ${count}
      )::text as sure,
      array(select j.id from judged j where j.matches is null)::text as unsure`
}

async function pageOf(
  reader: Reader,
  { order, after, count }: Gathering,
  { sure, unsure, total }: PageRow,
  status: EventStatus | undefined,
): Promise<Gathered> {
  const more = status === undefined ? [] : await lookAtEach(reader, unsure, status)
  const { above, below } = stretchOf({ low: null, high: null }, order, after)
  const ids = [...idsFrom(sure), ...more.filter((id) => id > above && id < below)]
  ids.sort((a, b) => (order === 'asc' ? a - b : b - a))
  return { ids: ids.slice(0, count), total: total + more.length }
}
