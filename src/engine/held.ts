import { numberArray } from '../db/array.ts'
import { type Database, defineStatement } from '../db/database.ts'

/** What a process holds and must not begin. */
export interface Holds {
  /** One of the subscriptions gives out nothing now. */
  readonly isAnyHeld: boolean
  /** What an operator has cancelled of what the worker holds. */
  readonly cancelled: readonly CancelledInHand[]
}

export interface CancelledInHand {
  readonly subscription: number
  readonly eventIds: readonly number[]
}

/** Asks for all that a worker holds: its cost grows with what was cancelled, not with what is leased. */
export async function readHolds(
  db: Database,
  { subscriptions, worker }: { readonly subscriptions: readonly number[]; readonly worker: number },
): Promise<Holds> {
  const rows = await db.once<HoldRow>(holdsStatement(db), [numberArray(subscriptions), worker], readOptions)
  const cancelled = rows.flatMap(([subscription, eventIds]) =>
    eventIds === null ? [] : [{ subscription, eventIds }],
  )
  return { isAnyHeld: rows.length > cancelled.length, cancelled }
}

/** What an operator has cancelled of all that the holder of a run holds through the same subscription. */
export async function readCancelled(db: Database, runId: number): Promise<number[]> {
  const rows = await db.once<[eventId: number]>(cancelledStatement(db), [runId], readOptions)
  return rows.map(([eventId]) => eventId)
}

const readOptions = { readOnly: true, indexPlans: true } as const

/** The state is wrapped, or the planner would go through all leases. What has left its run is no longer in hand. */
const isInHand = `r.cancelled is not null and coalesce(r.state, 'ready') = 'leased' and u.event_id = any(r.cancelled)`

const holdsStatement = defineStatement(
  'read_holds',
  `select s.no, null::bigint[]
  from __schema__.subscriptions s
  where s.no = any($1::int[]) and s.status not in ('active', 'draining')
  union all
  select r.subscription, array_agg(u.event_id)
  from __schema__.runs r
  cross join lateral unnest(r.event_ids) as u(event_id)
  where r.worker = $2 and ${isInHand}
  group by r.subscription`,
)

/** Without event ids: the subscription gives out nothing. */
type HoldRow = [subscription: number, eventIds: number[] | null]

const cancelledStatement = defineStatement(
  'read_cancelled',
  `select u.event_id
  from __schema__.runs h
  join __schema__.runs r on r.worker = h.worker and r.subscription = h.subscription
  cross join lateral unnest(r.event_ids) as u(event_id)
  where h.id = $1 and ${isInHand}
  order by u.event_id`,
)
