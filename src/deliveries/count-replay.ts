import type { Total } from '../core/paging.ts'
import { numberArray } from '../db/array.ts'
import { type Connection, type Database, defineStatement } from '../db/database.ts'
import type { ReplayPlan } from '../domain/replay.ts'
import { chooseDeliveries } from './choose-deliveries.ts'

/** What a replay would have to do. */
export interface ReplayCount extends Total {
  /** Known to be asked for and gone. */
  readonly removed: number
  /** Where events are asked for that are older than the oldest there is: when that was published. */
  readonly oldestKeptAt: Date | null
}

/** The stretch of events it is about. */
export interface ReplayBounds {
  readonly after: number
  readonly lastId: number
}

/** So many are looked at, as long as that takes no longer than this; how many more there are is estimated. */
const countedMax = 20_000
const countMs = 500
const seenMax = 2_000

export async function countReplay(
  tx: Connection,
  db: Database,
  { plan, subscription }: { plan: ReplayPlan; subscription: number },
): Promise<ReplayCount & ReplayBounds> {
  const { oldestKeptAt, ...bounds } = await findBounds(tx, db, { plan, subscription })
  const { eventIds, reached } = await lookThrough(tx, db, { plan, subscription, ...bounds })
  const missing = plan.kind === 'recover' ? eventIds : (plan.request.event_ids ?? [])
  const [row] = await tx.run<[gone: number]>(goneStatement(db), [numberArray(missing)])
  const removed = row?.[0] ?? 0
  // A dead letter stays when its event is gone.
  const counted = eventIds.length + (plan.kind === 'replay' ? removed : 0)
  const rest = { removed, oldestKeptAt, ...bounds }
  if (reached >= bounds.lastId) return { total: counted, totalIsEstimate: false, ...rest }
  const share = (reached - bounds.after) / (bounds.lastId - bounds.after)
  return { total: Math.round(counted / share), totalIsEstimate: true, ...rest }
}

type Search = ReplayBounds & { plan: ReplayPlan; subscription: number }

async function lookThrough(tx: Connection, db: Database, { after, ...search }: Search) {
  const beganAt = performance.now()
  const eventIds: number[] = []
  let reached = after
  for (let seen = 0; seen < countedMax; seen += seenMax) {
    const choice = await chooseDeliveries(tx, db, {
      ...{ ...search, after: reached, lastLetter: null, deliveriesMax: seenMax, seenMax },
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
  { plan, subscription }: { plan: ReplayPlan; subscription: number },
): Promise<ReplayBounds & Pick<ReplayCount, 'oldestKeptAt'>> {
  if (plan.kind === 'recover') {
    const [row] = await tx.run<[lastId: number]>(lastLetter(db), [subscription])
    return { after: 0, lastId: row?.[0] ?? 0, oldestKeptAt: null }
  }
  const { from, to, event_ids: ids } = plan.request
  if (ids !== null) return { after: 0, lastId: ids.at(-1) as number, oldestKeptAt: null }
  const values = [from === null ? null : new Date(from), to === null ? null : new Date(to)]
  const [row] = await tx.run<BoundsRow>(boundsStatement(db), values)
  const [after, lastId, oldestKeptAt] = row as BoundsRow
  return { after, lastId, oldestKeptAt }
}

const lastLetter = defineStatement(
  'last_letter',
  `select coalesce(max(d.event_id), 0)
  from __schema__.dead_letters d
  where d.subscription = $1 and d.redriven_at is null`,
)

/** Wide enough to miss nothing: which of these events are of the time asked for is judged one by one. */
const boundsStatement = defineStatement(
  'bound_replay',
  `select
    case when $1::timestamptz is null then 0
      else coalesce(__schema__.event_id_at($1 - __schema__.time_disorder()), 1) - 1 end,
    least(coalesce(l.id, 0), case when $2::timestamptz is not null
      then coalesce(__schema__.event_id_at($2 + __schema__.time_disorder()), 1) - 1 end),
    case when $1 is null or $1 < o.created_at then o.created_at end
  from (select max(e.id) as id from __schema__.events e) as l
  left join (select e.created_at from __schema__.events e order by e.id limit 1) as o on true`,
)

const goneStatement = defineStatement(
  'count_gone',
  `select count(*)::int
  from unnest($1::bigint[]) as u(id)
  where not exists (select 1 from __schema__.events e where e.id = u.id and e.purged_at is null)`,
)

type BoundsRow = [after: number, lastId: number, oldestKeptAt: Date | null]
