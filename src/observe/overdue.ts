import type { Reader } from '../core/reader.ts'
import { type Database, defineStatement } from '../db/database.ts'

/** An attempt that was picked long ago and has not ended. */
export interface OverdueAttempt {
  /** Names this attempt and no other: a token is drawn for every lease. */
  readonly key: string
  /** The subscription's name, and the event's type. */
  readonly name: string
  readonly type: string | null
  readonly eventId: number
  readonly worker: string | null
  readonly pickedAt: Date
}

/** Those that were picked before all others first. */
export async function overdueAttempts(
  db: Database,
  { afterMs, limit }: { readonly afterMs: number; readonly limit: number },
): Promise<OverdueAttempt[]> {
  const rows = await db.run<OverdueRow>(overdueStatement(db), [afterMs, limit])
  return rows.map(([token, subscription, name, type, eventId, worker, pickedAt]) => ({
    key: `${token}-${subscription}-${eventId}`,
    ...{ name, type, eventId, worker, pickedAt },
  }))
}

export async function countOverdue(
  reader: Reader,
  { afterMs }: { readonly afterMs: number },
): Promise<number> {
  const [row] = await reader.run<[count: number]>(countStatement(reader), [afterMs])
  return row?.[0] ?? 0
}

/** Only what is leased is read. What of it has left the run or has not begun is no attempt. */
const overdue = `
  from __schema__.runs r
  cross join lateral unnest(r.begun) as u(event_id)
  where r.state = 'leased' and r.leased_at <= __schema__.clock() - $1::bigint * interval '1 ms'
    and u.event_id = any(r.event_ids)`

const overdueStatement = defineStatement(
  'overdue_attempts',
  `select o.token, o.subscription, s.name, e.type, o.event_id, w.name, o.leased_at
  from (
    select r.token, r.subscription, r.worker, r.leased_at, u.event_id
    ${overdue}
    order by r.leased_at, u.event_id
    limit $2
  ) as o
  join __schema__.subscriptions s on s.no = o.subscription
  join __schema__.events e on e.id = o.event_id
  left join __schema__.workers w on w.no = o.worker
  order by o.leased_at, o.event_id`,
)

const countStatement = defineStatement('count_overdue', `select count(*)::int ${overdue}`)

type OverdueRow = [
  token: number,
  subscription: number,
  name: string,
  type: string | null,
  eventId: number,
  worker: string | null,
  pickedAt: Date,
]
