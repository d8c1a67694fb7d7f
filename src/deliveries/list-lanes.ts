import { badOption, checkPaging } from '../core/paging.ts'
import { type Reader, readAtOnce } from '../core/reader.ts'
import { type Database, defineStatement } from '../db/database.ts'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import { type LaneStatus, laneStatuses, summarizeLane } from '../domain/lane-summary.ts'
import { isStorable } from '../domain/text.ts'
import type { LaneRequest } from './lane-heads.ts'

/** A lane with something in it. */
export interface LaneDetails {
  readonly orderingKey: string
  readonly status: LaneStatus
  readonly headEventId: number
  /** Null where its event is no longer stored. */
  readonly headDeliveryId: string | null
  /** Deliveries behind the head. */
  readonly waiting: number
  /** Of a deep lane not all are counted. */
  readonly waitingIsLeast: boolean
  /** Since when it is in this status. */
  readonly since: Date | null
  readonly nextAt: Date | null
  readonly lastError: string | null
  readonly summary: string
}

export interface LaneFilter {
  readonly status?: LaneStatus
  readonly limit?: number
  readonly cursor?: string
}

export interface LanePage {
  readonly lanes: readonly LaneDetails[]
  /** Also if the page is not full: it looked at as many as it may. */
  readonly nextCursor: string | null
}

/** What one call looks at; a call after it goes on there. */
const examinedMax = 50_000

/** The lanes of a subscription by their keys: those that have a run out, which are all but what has just arrived. */
export async function listLanes(
  db: Database,
  subscription: number,
  filter: LaneFilter = {},
  bounds: { readonly examinedMax: number } = { examinedMax },
): Promise<LanePage> {
  const { status, limit, after, cursorAt } = checkFilter(subscription, filter)
  const seenMax = status === null ? limit + 1 : bounds.examinedMax
  const values = [subscription, after, status, seenMax, limit + 1]
  const rows = await readAtOnce(db, (reader) => reader.run<VisitRow>(visitStatement(reader), values))
  const [first] = rows
  if (first === undefined) return { lanes: [], nextCursor: null }
  const found = rows.flatMap(([, , ...row]) => (row[0] === null ? [] : [laneFromRow(row as LaneRow)]))
  const lanes = found.slice(0, limit)
  if (found.length > limit) return { lanes, nextCursor: cursorAt((lanes.at(-1) as LaneDetails).orderingKey) }
  const [seen, lastKey] = first
  return { lanes, nextCursor: seen === seenMax && lastKey !== null ? cursorAt(lastKey) : null }
}

/** One lane, or undefined if nothing is in it. */
export async function getLane(db: Database, request: LaneRequest): Promise<LaneDetails | undefined> {
  const { subscription, orderingKey } = request
  const read = (reader: Reader) => reader.run<LaneRow>(getStatement(reader), [subscription, orderingKey])
  const [row] = await readAtOnce(db, read)
  return row && laneFromRow(row)
}

/** Keys may hold anything, so a cursor holds them encoded. */
const cursorForm = /^[A-Za-z0-9_-]{1,1400}$/

const filterNames: NamesOf<LaneFilter> = { status: true, limit: true, cursor: true }

function checkFilter(subscription: number, filter: LaneFilter) {
  checkOptions(filter, filterNames, 'a list of lanes')
  const { status, cursor } = filter
  if (status !== undefined && !laneStatuses.includes(status)) {
    throw badOption('status', `one of ${laneStatuses.join(', ')}`, status)
  }
  const checked = checkPaging('lanes', { ...filter, subscription }, cursorForm)
  const after = checked.after === null ? null : Buffer.from(checked.after, 'base64url').toString()
  if (after !== null && !isStorable(after)) {
    throw badOption('cursor', 'one that a page of this list gave', cursor)
  }
  const cursorAt = (orderingKey: string) => checked.cursorAt(Buffer.from(orderingKey).toString('base64url'))
  return { limit: checked.limit, status: status ?? null, after, cursorAt }
}

/** Chunks of a lane, each of up to 50 deliveries. */
const chunksMax = 500

const laneStatus = `case
      when r.state = 'blocked' then 'blocked'
      when r.state = 'leased' then 'delivering'
      when r.attempts > 0 then 'retrying'
      else 'waiting'
    end`

const laneColumns = `l.ordering_key, l.status, h.head, __schema__.delivery_id(e.created_at, e.id, l.subscription),
    (cardinality(l.event_ids) - case when l.state = 'blocked' then 0 else 1 end + q.waiting)::int, q.chunks >= ${chunksMax},
    case l.status when 'delivering' then l.leased_at when 'waiting' then e.created_at else a.finished_at end,
    l.due_at, a.reason, __schema__.clock()
  from lane l
  cross join lateral (select case when l.state = 'blocked' then l.blocked_by else l.event_ids[1] end as head) as h
  left join __schema__.events e on e.id = h.head
  cross join lateral (
    select coalesce(sum(cardinality(c.event_ids)), 0) as waiting, count(*) as chunks
    from (
      select q.event_ids from __schema__.lane_queue q
      where q.subscription = l.subscription and q.ordering_key = l.ordering_key
      limit ${chunksMax}
    ) as c
  ) as q
  left join lateral (
    select coalesce(a.reason, case when a.settlement = 'lease_expired' then 'lease expired' end) as reason, a.finished_at
    from __schema__.audit a
    where a.event_id = h.head and a.subscription = l.subscription
      and a.settlement in ('retried', 'lease_expired', 'buried', 'snoozed')
    order by a.id desc
    limit 1
  ) as a on l.status in ('blocked', 'retrying')`

const runColumns = `r.subscription, r.ordering_key, r.state, r.event_ids, r.blocked_by, r.due_at, r.leased_at,
      ${laneStatus} as status`

const visitStatement = defineStatement(
  'list_lanes',
  `with visited as materialized (
    select ${runColumns}
    from __schema__.runs r
    where r.subscription = $1 and r.ordering_key is not null and r.state not in ('delayed', 'held')
      and ($2::text is null or r.ordering_key > $2)
    order by r.ordering_key
    limit $4
  ),
  lane as materialized (
    select v.* from visited v where $3::text is null or v.status = $3 order by v.ordering_key limit $5
  )
  select (select count(*)::int from visited), (select max(v.ordering_key) from visited v), d.*
  from (values (1)) as one
  left join (select ${laneColumns}) as d on true
  order by d.ordering_key`,
)

const getStatement = defineStatement(
  'get_lane',
  `with lane as materialized (
    select ${runColumns}
    from __schema__.runs r
    where r.subscription = $1 and r.ordering_key = $2 and r.state not in ('delayed', 'held')
  )
  select ${laneColumns}`,
)

type LaneRow = [
  orderingKey: string,
  status: LaneStatus,
  headEventId: number,
  headDeliveryId: string | null,
  waiting: number,
  waitingIsLeast: boolean,
  since: Date | null,
  nextAt: Date | null,
  lastError: string | null,
  now: Date,
]
type VisitRow = [seen: number, lastKey: string | null, ...LaneRow]

function laneFromRow(row: LaneRow): LaneDetails {
  const [orderingKey, status, headEventId, headDeliveryId, waiting, waitingIsLeast, ...rest] = row
  const [since, nextAt, lastError, now] = rest
  const lane = {
    orderingKey,
    status,
    headEventId,
    headDeliveryId,
    waiting,
    waitingIsLeast,
    since,
    nextAt,
    lastError,
  }
  return { ...lane, summary: summarizeLane(lane, now) }
}
