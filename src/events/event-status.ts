import type { Order } from '../core/paging.ts'
import type { Reader } from '../core/reader.ts'
import { numberArray } from '../db/array.ts'
import { defineStatement } from '../db/database.ts'
import type { EventStatus } from '../domain/status.ts'
import type { EventMatch } from './event-match.ts'
import type { Members } from './event-sources.ts'
import { idsFrom, isEverything, matches, type Parameters } from './event-sql.ts'

/**
 * Two ways to a CTE `judged` of those that match a filter: id, and whether they have the status, null where that takes
 * a look at each of their deliveries.
 */

/**
 * From a CTE `candidate` (id, deliveries) of those that match, the first `max`. Their records are counted in the index
 * alone: an event that was never stopped nor sent again has completed as often as it is owed, or is unfinished, since
 * a completion is final.
 */
export function judgeCandidates(
  status: EventStatus | undefined,
  parameters: Parameters,
  max = Number.POSITIVE_INFINITY,
): string {
  const candidates = `(select c.id, c.deliveries from candidate c limit ${Number.isFinite(max) ? max : 'all'})`
  if (status === undefined) {
    return `judged as materialized (select c.id, true as matches from ${candidates} as c)`
  }
  return `judged as materialized (
      select c.id,
        ${parameters.add(status)} = case
          when c.deliveries = 0 then
            case when exists (
              select 1 from __schema__.dead_letters l
              where l.event_id = c.id and l.subscription is null and l.redriven_at is null
            ) then 'FAILED' else 'COMPLETED' end
          when r.stopped then null
          when r.completed >= c.deliveries then 'COMPLETED'
          when c.id in (select f.event_id from __schema__.in_flight f) then 'PROCESSING'
          else 'PENDING'
        end as matches
      from ${candidates} as c
      cross join lateral (
        select count(*) filter (where a.settlement = 'completed') as completed,
          bool_or(a.settlement in ('buried', 'expired', 'cancelled', 'discarded', 'redriven')) as stopped
        from __schema__.audit a
        where a.event_id = c.id
      ) as r
    )`
}

/** Reading it takes a look at the row, which a list without a status can do without. */
export function deliveriesFor(status: EventStatus | undefined): string {
  return status === undefined ? 'null::int' : 'cardinality(e.owed)'
}

/**
 * From a CTE `member` (event_id, finalized) of those that can have the status, if the condition holds. They are not
 * joined: a join would believe an array to have ten elements.
 */
export function judgeMembers(
  { decided, decidedAlone }: Members,
  match: EventMatch,
  parameters: Parameters,
  condition = 'true',
): string {
  if (decided && isEverything(match)) {
    return `judged as materialized (
      select distinct m.event_id as id, true as matches from member m where ${condition}
    )`
  }
  const finalized = '(e.id in (select m.event_id from member m where m.finalized))'
  const verdict = decided ? 'true' : `case when cardinality(e.owed) <= 1 then ${decidedAlone(finalized)} end`
  return `judged as materialized (
      select e.id, ${verdict} as matches
      from __schema__.events e
      where e.id = any(array(select m.event_id from member m where ${condition})) and ${matches(match, parameters)}
    )`
}

export interface Judged {
  readonly sure: string
  readonly unsure: string
}

/** The columns of `Judged`. */
export const judgedColumns = `array(select j.id from judged j where j.matches)::text as sure,
      array(select j.id from judged j where j.matches is null)::text as unsure`

/** All of them that have the status, in order. */
export async function settleJudged(
  reader: Reader,
  { sure, unsure }: Judged,
  { status, order }: { status: EventStatus | undefined; order: Order },
): Promise<number[]> {
  const ids = idsFrom(sure)
  if (status !== undefined) ids.push(...(await lookAtEach(reader, unsure, status)))
  return ids.sort((a, b) => (order === 'asc' ? a - b : b - a))
}

/** Those that have the status. */
export async function lookAtEach(reader: Reader, ids: string, status: EventStatus): Promise<number[]> {
  if (ids === '{}') return []
  const [row] = await reader.run<[ids: string]>(lookStatement(reader), [ids, status])
  return idsFrom(row?.[0] ?? '{}')
}

const lookStatement = defineStatement(
  'filter_by_status',
  `select array(select s.event_id from __schema__.event_statuses($1) as s where s.status = $2)::text`,
)

/** Of some events, those that have the status. */
export async function havingStatus(
  reader: Reader,
  ids: readonly number[],
  status: EventStatus,
): Promise<number[]> {
  return lookAtEach(reader, numberArray(ids), status)
}
