import { countedRows } from '../core/list-page.ts'
import {
  type CheckedPaging,
  checkOneOf,
  checkPaging,
  type Paging,
  pagingOptions,
  type Total,
  totalMax,
  uuidForm,
} from '../core/paging.ts'
import { planRows, type Reader, readAtOnce } from '../core/reader.ts'
import type { Database } from '../db/database.ts'
import { badOption } from '../domain/bad-value.ts'
import { checkOptions } from '../domain/known-names.ts'
import { type ReplayPlan, type ReplayState, replayStates } from '../domain/replay.ts'
import { toReason } from '../domain/text.ts'
import { abortReplayStatement, findReplaysStatement, listReplaysStatement } from './replay-statements.ts'

/** A recovery or a replay, and its progress. */
export interface Replay extends Total {
  readonly id: string
  readonly kind: ReplayPlan['kind']
  readonly subscription: { readonly no: number; readonly id: string; readonly name: string }
  readonly request: ReplayPlan['request']
  readonly state: ReplayState
  /** Deliveries that were sent again. */
  readonly done: number
  /** Deliveries that were still waiting or leased. */
  readonly skipped: number
  /** Deliveries whose event is gone. */
  readonly removed: number
  /** Everything up to this event id is done. */
  readonly reached: number
  /** If the request names older events than there are: when the oldest event was published. */
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
  const values = [null, null, null, 1, 0, id, 'asc']
  const { rows } = await db.query<Replay>(listReplaysStatement(db).text, values)
  return rows[0]
}

/** Sends no further deliveries. Has no effect on a replay that has ended. */
export async function abortReplay(db: Database, { id, by }: { id: string; by: string }): Promise<void> {
  if (uuidForm.test(id)) await db.run(abortReplayStatement(db), [id, toReason(`aborted by ${by}`)])
}

/** In the order of their ids, and so of their creation. */
export async function listReplays(db: Database, filter: ReplayFilter = {}): Promise<ReplayPage> {
  checkOptions(filter, { ...pagingOptions, state: true, subscriptionId: true }, 'a list of replays')
  const { state, subscriptionId } = filter
  checkOneOf('state', replayStates, state)
  if (subscriptionId !== undefined && !uuidForm.test(subscriptionId)) {
    throw badOption('subscriptionId', 'the id of a subscription', subscriptionId)
  }
  const paging = checkPaging('replays', filter, uuidForm)
  return readAtOnce(db, (reader) => readPage(reader, filter, paging))
}

async function readPage(reader: Reader, filter: ReplayFilter, paging: CheckedPaging): Promise<ReplayPage> {
  const { limit, offset, after, order, cursorAt } = paging
  const chosen = [filter.state ?? null, filter.subscriptionId ?? null]
  const values = [...chosen, after, limit + 1, offset, null, order]
  const { rows } = await reader.query<Replay>(listReplaysStatement(reader).text, values)
  const replays = rows.slice(0, limit)
  const last = replays.at(-1)
  const nextCursor = rows.length > limit && last !== undefined ? cursorAt(last.id) : null
  return { replays, ...(await countReplays(reader, chosen)), nextCursor }
}

async function countReplays(reader: Reader, chosen: readonly unknown[]): Promise<Total> {
  const { text } = findReplaysStatement(reader)
  const { rows } = await reader.query<{ count: number | null }>(
    `select (${countedRows(text)}) as count`,
    chosen,
  )
  const count = rows[0]?.count ?? null
  if (count !== null) return { total: count, totalIsEstimate: false }
  return { total: Math.max(totalMax + 1, await planRows(reader, text, chosen)), totalIsEstimate: true }
}
