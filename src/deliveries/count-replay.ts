import type { Total } from '../core/paging.ts'
import { numberArray } from '../db/array.ts'
import type { Connection, Database } from '../db/database.ts'
import type { ReplayPlan } from '../domain/replay.ts'
import { chooseDeliveries } from './choose-deliveries.ts'
import { boundReplayStatement, countGoneStatement, findLastLetterStatement } from './replay-statements.ts'

/** The size of a replay. */
export interface ReplayCount extends Total {
  /** Events that the request names and that no longer exist. */
  readonly removed: number
  /** If the request names older events than there are: when the oldest event was published. */
  readonly oldestKeptAt: Date | null
}

interface ReplayScope {
  readonly plan: ReplayPlan
  readonly subscription: number
}

/** The event ids that a replay goes through. */
export interface ReplayBounds {
  readonly after: number
  readonly lastId: number
}

/** Events that are counted, within this time; the rest is estimated. */
const countedMax = 20_000
const countMs = 500
const seenMax = 2_000

export async function countReplay(
  tx: Connection,
  db: Database,
  scope: ReplayScope,
): Promise<ReplayCount & ReplayBounds> {
  const { plan } = scope
  const { oldestKeptAt, ...bounds } = await findBounds(tx, db, scope)
  const { eventIds, reached } = await lookThrough(tx, db, { ...scope, ...bounds })
  const missing = plan.kind === 'recover' ? eventIds : (plan.request.event_ids ?? [])
  const [row] = await tx.run<[gone: number]>(countGoneStatement(db), [numberArray(missing)])
  const removed = row?.[0] ?? 0
  // A dead letter is still there when its event is gone, so it is counted already.
  const counted = eventIds.length + (plan.kind === 'replay' ? removed : 0)
  const rest = { removed, oldestKeptAt, ...bounds }
  if (reached >= bounds.lastId) return { total: counted, totalIsEstimate: false, ...rest }
  const share = (reached - bounds.after) / (bounds.lastId - bounds.after)
  return { total: Math.round(counted / share), totalIsEstimate: true, ...rest }
}

async function lookThrough(tx: Connection, db: Database, { after, ...search }: ReplayScope & ReplayBounds) {
  const beganAt = performance.now()
  const eventIds: number[] = []
  let reached = after
  for (let seen = 0; seen < countedMax; seen += seenMax) {
    const choice = await chooseDeliveries(tx, db, {
      ...search,
      after: reached,
      lastLetter: null,
      deliveriesMax: seenMax,
      seenMax,
    })
    for (const id of choice.eventIds) eventIds.push(id)
    reached = choice.reached
    if (reached >= search.lastId || performance.now() - beganAt > countMs) break
  }
  return { eventIds, reached }
}

async function findBounds(
  tx: Connection,
  db: Database,
  { plan, subscription }: ReplayScope,
): Promise<ReplayBounds & Pick<ReplayCount, 'oldestKeptAt'>> {
  if (plan.kind === 'recover') {
    const [row] = await tx.run<[lastId: number]>(findLastLetterStatement(db), [subscription])
    return { after: 0, lastId: row?.[0] ?? 0, oldestKeptAt: null }
  }
  const { from, to, event_ids: ids } = plan.request
  if (ids !== null) return { after: 0, lastId: ids.at(-1) as number, oldestKeptAt: null }
  const [row] = await tx.run<BoundsRow>(boundReplayStatement(db), [from, to])
  const [after, lastId, oldestKeptAt] = row as BoundsRow
  return { after, lastId, oldestKeptAt }
}

type BoundsRow = [after: number, lastId: number, oldestKeptAt: Date | null]
