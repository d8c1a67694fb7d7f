import {
  badOption,
  type CheckedPaging,
  checkPaging,
  type Paging,
  pagingOptions,
  type Total,
  uuidForm,
} from '../core/paging.ts'
import { planRows, type Reader, readAtOnce } from '../core/reader.ts'
import { type Database, defineStatement } from '../db/database.ts'
import { checkOptions } from '../domain/known-names.ts'
import { type ReplayPlan, type ReplayState, replayStates } from '../domain/replay.ts'
import { toReason } from '../domain/text.ts'

/** A recovery or a replay, and how far it is. */
export interface Replay extends Total {
  readonly id: string
  readonly kind: ReplayPlan['kind']
  readonly subscription: { readonly no: number; readonly id: string; readonly name: string }
  readonly request: ReplayPlan['request']
  readonly state: ReplayState
  /** Sent once more. */
  readonly done: number
  /** Waiting or leased already. */
  readonly skipped: number
  /** Asked for, and gone. */
  readonly removed: number
  /** All that is asked for up to this event is dealt with. */
  readonly reached: number
  /** Where older events are asked for than there are: when the oldest was published. */
  readonly oldestKeptAt: Date | null
  readonly ratePerSecond: number | null
  readonly createdAt: Date
  readonly createdBy: string
  readonly finishedAt: Date | null
  /** Why it was aborted. */
  readonly reason: string | null
  readonly lastError: string | null
}

export interface ReplayFilter extends Paging {
  /** The id of a subscription. */
  readonly subscriptionId?: string
  readonly state?: ReplayState
}

export interface ReplayPage extends Total {
  readonly replays: readonly Replay[]
  readonly nextCursor: string | null
}

export async function getReplay(db: Database, id: string): Promise<Replay | undefined> {
  if (!uuidForm.test(id)) return undefined
  const { rows } = await db.query<ReplayRow>(getStatement(db).text, [id])
  return rows[0] && fromRow(rows[0])
}

/** What is sent stays sent; of what is not, nothing more is. Doing it twice is doing it once. */
export async function abortReplay(db: Database, { id, by }: { id: string; by: string }): Promise<void> {
  if (uuidForm.test(id)) await db.run(abortStatement(db), [id, toReason(`aborted by ${by}`)])
}

/** In the order of their ids, which is that of their making. */
export async function listReplays(db: Database, filter: ReplayFilter = {}): Promise<ReplayPage> {
  checkOptions(filter, { ...pagingOptions, state: true, subscriptionId: true }, 'a list of replays')
  const { state, subscriptionId } = filter
  if (state !== undefined && !replayStates.includes(state)) {
    throw badOption('state', `one of ${replayStates.join(', ')}`, state)
  }
  if (subscriptionId !== undefined && !uuidForm.test(subscriptionId)) {
    throw badOption('subscriptionId', 'the id of a subscription', subscriptionId)
  }
  const paging = checkPaging('replays', filter, uuidForm)
  return readAtOnce(db, (reader) => readPage(reader, filter, paging))
}

async function readPage(reader: Reader, filter: ReplayFilter, paging: CheckedPaging): Promise<ReplayPage> {
  const { limit, offset, after, order, cursorAt } = paging
  const chosen = [filter.state ?? null, filter.subscriptionId ?? null]
  const { rows } = await reader.query<ReplayRow>(
    `${replaysWanted} and (r.id ${order === 'asc' ? '>' : '<'} $3 or $3::uuid is null)
    order by r.id ${order}
    limit $4 offset $5`,
    [...chosen, after, limit + 1, offset],
  )
  const replays = rows.slice(0, limit).map(fromRow)
  const last = replays.at(-1)
  const nextCursor = rows.length > limit && last !== undefined ? cursorAt(last.id) : null
  return { replays, ...(await countReplays(reader, chosen)), nextCursor }
}

async function countReplays(reader: Reader, chosen: readonly unknown[]): Promise<Total> {
  const { rows } = await reader.query<{ count: number }>(
    `select count(*)::int as count from (${replaysWanted} limit ${countedMax + 1}) as counted`,
    chosen,
  )
  const count = rows[0]?.count ?? 0
  if (count <= countedMax) return { total: count, totalIsEstimate: false }
  return { total: Math.max(count, await planRows(reader, replaysWanted, chosen)), totalIsEstimate: true }
}

const countedMax = 10_000

const replays = `select r.id, r.kind, s.no, s.id as "subscriptionId", s.name, r.request, r.state, r.total,
    r.total_is_estimate as "totalIsEstimate", r.done, r.skipped, r.removed, r.reached, r.oldest_kept_at as "oldestKeptAt",
    r.rate_per_second as "ratePerSecond", r.created_at as "createdAt", r.created_by as "createdBy",
    r.finished_at as "finishedAt", r.reason, r.last_error as "lastError"
  from __schema__.replays r
  join __schema__.subscriptions s on s.no = r.subscription`

const replaysWanted = `${replays}
  where (r.state = $1 or $1::text is null) and (s.id = $2 or $2::uuid is null)`

const getStatement = defineStatement('get_replay', `${replays} where r.id = $1`)

const abortStatement = defineStatement(
  'abort_replay',
  `update __schema__.replays r
  set state = 'aborted', finished_at = __schema__.clock(), reason = $2
  where r.id = $1 and r.state = 'running'`,
)

type ReplayRow = Omit<Replay, 'subscription'> & { no: number; subscriptionId: string; name: string }

function fromRow({ no, subscriptionId, name, ...rest }: ReplayRow): Replay {
  return { ...rest, subscription: { no, id: subscriptionId, name } }
}
