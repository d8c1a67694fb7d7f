import { numberArray } from '../db/array.ts'
import { type Connection, defineStatement } from '../db/database.ts'
import { parseFilter } from '../domain/filter.ts'
import type { RecoverRequest, ReplayPlan, ReplayRequest } from '../domain/replay.ts'

/** A stretch of events, and how much of it is looked at in one go. */
export interface ChoiceRequest {
  readonly plan: ReplayPlan
  readonly subscription: number
  /** Event ids above this one, */
  readonly after: number
  /** and up to this one. */
  readonly lastId: number
  /** Dead letters with a higher number were buried later and do not count; null: all there are do. */
  readonly lastLetter: number | null
  readonly deliveriesMax: number
  readonly seenMax: number
}

export interface Choice {
  /** In order. */
  readonly eventIds: readonly number[]
  /** Nothing else up to there is asked for. */
  readonly reached: number
}

/** The next deliveries that are asked for, in the order of their events. Whether they can be sent is not looked at. */
export async function chooseDeliveries(
  tx: Connection,
  db: { readonly schema: string },
  request: ChoiceRequest,
): Promise<Choice> {
  const { plan, subscription, after, lastId, lastLetter, deliveriesMax, seenMax } = request
  const stretch = [subscription, after, lastId, deliveriesMax, seenMax]
  const [row] =
    plan.kind === 'recover'
      ? await tx.run<ChoiceRow>(chooseLetters(db), [...stretch, ...letterValues(plan.request), lastLetter])
      : plan.request.event_ids === null
        ? await tx.run<ChoiceRow>(chooseInRange(db), [...stretch, ...eventValues(plan.request)])
        : await tx.run<ChoiceRow>(chooseByIds(db), [
            ...stretch,
            ...eventValues(plan.request),
            numberArray(plan.request.event_ids),
          ])
  const [eventIds, reached] = row as ChoiceRow
  return { eventIds, reached }
}

function letterValues({ since, until, dead_letters: kinds }: RecoverRequest): unknown[] {
  return [
    kinds === 'all' ? ['buried', 'expired'] : [kinds],
    new Date(since),
    until === null ? null : new Date(until),
  ]
}

function eventValues({ from, to, event_type: type, filter }: ReplayRequest): unknown[] {
  return [
    from === null ? null : new Date(from),
    to === null ? null : new Date(to),
    type,
    filter === null ? null : JSON.stringify(parseFilter(filter)),
  ]
}

/** How far this has come: to the last one chosen if it chose all it may, to the last one seen, or to the end. */
const summary = `select array(select c.event_id from chosen c order by c.event_id),
    case
      when (select count(*) from chosen) = $4 then (select max(c.event_id) from chosen c)
      when (select count(*) from seen) = $5 then (select max(s.event_id) from seen s)
      else greatest($2::bigint, $3)
    end`

const chooseLetters = defineStatement(
  'choose_letters',
  `with seen as materialized (
    select d.event_id,
      d.kind = any($6::text[]) and d.buried_at >= $7 and (d.buried_at < $8 or $8::timestamptz is null)
        and (d.no <= $9 or $9::bigint is null) as fits
    from __schema__.dead_letters d
    where d.subscription = $1 and d.redriven_at is null and d.event_id > $2 and d.event_id <= $3::bigint
    order by d.event_id
    limit $5::int
  ),
  chosen as materialized (
    select distinct s.event_id from seen s where s.fits order by s.event_id limit $4::int
  )
  ${summary}`,
)

/**
 * What was owed to it, whatever became of it, and what it would be owed now. The subquery is bounded and in order, so
 * that its events are looked into one by one, and no more of them than it takes.
 */
function chooseEvents(from: string): string {
  return `with seen as materialized (
    select e.id as event_id
    from __schema__.events e
    where e.id > $2 and e.id <= $3::bigint and ${from}
    order by e.id
    limit $5::int
  ),
  chosen as materialized (
    select w.id as event_id
    from (
      select e.id, e as event
      from __schema__.events e
      where e.id > $2 and e.id <= $3 and ${from}
      order by e.id
      limit $5
    ) as w
    where ((w.event).created_at >= $6 or $6::timestamptz is null)
      and ((w.event).created_at < $7 or $7::timestamptz is null)
      and case
        when $8::text is null then true
        when $8 = '*' then (w.event).type is not null
        when right($8, 2) = '.*' then starts_with((w.event).type, left($8, -1))
        else (w.event).type = $8
      end
      and ($9::jsonb is null or __schema__.meets($9, __schema__.readable((w.event).payload), __schema__.event_fields(w.event)))
      and (w.event).purged_at is null
      and ($1 = any((w.event).owed) or $1 = any(__schema__.owed_by(w.event)))
    order by w.id
    limit $4::int
  )
  ${summary}`
}

const chooseInRange = defineStatement('choose_in_range', chooseEvents('true'))

const chooseByIds = defineStatement('choose_by_ids', chooseEvents('e.id = any($10::bigint[])'))

type ChoiceRow = [eventIds: number[], reached: number]
