import { checkOneOf, checkPaging } from '../core/paging.ts'
import { readAtOnce } from '../core/reader.ts'
import type { Database } from '../db/database.ts'
import { badOption } from '../domain/bad-value.ts'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import { type LaneStanding, type LaneStatus, laneStatuses, summarizeLane } from '../domain/lane-summary.ts'
import { isStorable } from '../domain/text.ts'
import { listLanesStatement } from './lane-statements.ts'
import type { LaneRequest } from './repair.ts'

/** A lane with at least one delivery. */
export interface LaneDetails extends LaneStanding {
  readonly orderingKey: string
  /** Null: its event is no longer stored. */
  readonly headDeliveryId: string | null
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
  /** Not null also if the page is not full: the call has gone through as many lanes as it may. */
  readonly nextCursor: string | null
}

/** Lanes that one call goes through; the next page continues there. */
const examinedMax = 50_000

/** The lanes of a subscription that have a run, by their keys: all lanes, except for arrivals that are not admitted yet. */
export async function listLanes(
  db: Database,
  subscription: number,
  filter: LaneFilter = {},
  bounds: { readonly examinedMax: number } = { examinedMax },
): Promise<LanePage> {
  const { status, limit, after, cursorAt } = checkFilter(subscription, filter)
  const seenMax = status === null ? limit + 1 : bounds.examinedMax
  const found = await readLanes(db, { subscription, after, status, seenMax, lanesMax: limit + 1 })
  const lanes = found.lanes.slice(0, limit)
  if (found.lanes.length > limit) {
    return { lanes, nextCursor: cursorAt((lanes.at(-1) as LaneDetails).orderingKey) }
  }
  const { seen, lastKey } = found
  return { lanes, nextCursor: seen === seenMax && lastKey !== null ? cursorAt(lastKey) : null }
}

/** One lane, or undefined if it is empty. */
export async function getLane(db: Database, request: LaneRequest): Promise<LaneDetails | undefined> {
  const { lanes } = await readLanes(db, { ...request, seenMax: 1, lanesMax: 1 })
  return lanes[0]
}

/** Keys may contain any character, so a cursor has them encoded. */
const cursorForm = /^[A-Za-z0-9_-]{1,1400}$/

const filterNames: NamesOf<LaneFilter> = { status: true, limit: true, cursor: true }

function checkFilter(subscription: number, filter: LaneFilter) {
  checkOptions(filter, filterNames, 'a list of lanes')
  const { status, cursor } = filter
  checkOneOf('status', laneStatuses, status)
  const checked = checkPaging('lanes', { ...filter, subscription }, cursorForm)
  const after = checked.after === null ? null : Buffer.from(checked.after, 'base64url').toString()
  if (after !== null && !isStorable(after)) {
    throw badOption('cursor', 'one that a page of this list gave', cursor)
  }
  const cursorAt = (orderingKey: string) => checked.cursorAt(Buffer.from(orderingKey).toString('base64url'))
  return { limit: checked.limit, status: status ?? null, after, cursorAt }
}

/** Without an ordering key: no lane was found. */
type LaneRow = { seen: number; lastKey: string | null } & (
  | { orderingKey: null }
  | (Omit<LaneDetails, 'summary'> & { now: Date })
)

interface LaneSearch {
  readonly subscription: number
  readonly after?: string | null
  readonly status?: LaneStatus | null
  readonly seenMax: number
  readonly lanesMax: number
  /** Only the lane with this key. */
  readonly orderingKey?: string
}

async function readLanes(db: Database, search: LaneSearch) {
  const { subscription, after = null, status = null, seenMax, lanesMax, orderingKey = null } = search
  const values = [subscription, after, status, seenMax, lanesMax, orderingKey]
  const { rows } = await readAtOnce(db, (reader) =>
    reader.query<LaneRow>(listLanesStatement(reader).text, values),
  )
  const [{ seen, lastKey }] = rows as [LaneRow]
  const lanes = rows.flatMap((row) => (row.orderingKey === null ? [] : [laneFromRow(row)]))
  return { lanes, seen, lastKey }
}

function laneFromRow({ seen, lastKey, now, ...lane }: LaneRow & { orderingKey: string }): LaneDetails {
  return { ...lane, summary: summarizeLane(lane, now) }
}
