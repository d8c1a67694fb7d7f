import { numberArray, textArray } from '../db/array.ts'
import { type Database, defineStatement } from '../db/database.ts'

/** The audit record of an attempt that a worker has settled. */
export interface SettlementRecord {
  /** The id of the log entry. */
  readonly id: number
  readonly eventId: number
  readonly subscription: number
  readonly workerId: string | null
  readonly settlement: 'completed' | 'retried' | 'snoozed' | 'released' | 'buried' | 'cancelled'
  readonly failures: number
  /** The event's own limit, if it has one. */
  readonly maxRetries: number | null
  readonly statusCode: number | null
  readonly executionMs: number | null
  readonly reason: string | null
  readonly nextAt: Date | null
  readonly finishedAt: Date
}

export interface SettledLease {
  readonly eventId: number
  readonly subscription: number
  readonly token: number
}

/** The records of these attempts, in order; undefined if the worker has settled nothing under the lease. */
export async function readSettlements(
  db: Database,
  leases: readonly SettledLease[],
): Promise<(SettlementRecord | undefined)[]> {
  const records: (SettlementRecord | undefined)[] = leases.map(() => undefined)
  const rows = await db.run<RecordRow>(readStatement(db), [
    numberArray(leases.map(({ eventId }) => eventId)),
    numberArray(leases.map(({ subscription }) => subscription)),
    numberArray(leases.map(({ token }) => token)),
  ])
  for (const row of rows) records[row[0] - 1] = fromRow(row)
  return records
}

/** The lease that each worker held last on an event, if that lease has ended. */
export async function lastLeasesOf(
  db: Database,
  claims: readonly { readonly eventId: number; readonly workerId: string }[],
): Promise<(SettledLease | undefined)[]> {
  const leases: (SettledLease | undefined)[] = claims.map(() => undefined)
  if (claims.length === 0) return leases
  const rows = await db.run<[place: number, eventId: number, subscription: number, token: number]>(
    lastStatement(db),
    [numberArray(claims.map(({ eventId }) => eventId)), textArray(claims.map(({ workerId }) => workerId))],
  )
  for (const [place, eventId, subscription, token] of rows) {
    leases[place - 1] = { eventId, subscription, token }
  }
  return leases
}

/** Leaves out records that a reclaim or an operator wrote, since the worker did not settle those attempts. */
const readStatement = defineStatement(
  'read_settlements',
  `select g.place::int, __schema__.log_id(a.finished_at, a.event_id, a.subscription, 2), a.event_id, a.subscription, w.name,
    a.settlement, a.failures, case when a.subscription = 0 then e.max_retries end, a.status_code, a.execution_ms,
    a.reason, a.next_at, a.finished_at
  from unnest($1::bigint[], $2::int[], $3::bigint[]) with ordinality as g(event_id, subscription, token, place)
  cross join lateral (
    select a.*
    from __schema__.audit a
    where a.event_id = g.event_id and a.subscription = g.subscription and a.token = g.token
      and a.settlement not in ('lease_expired', 'reset')
      and a.cause is distinct from 'lease_expired'
    order by a.id desc
    limit 1
  ) as a
  left join __schema__.events e on e.id = a.event_id
  left join __schema__.workers w on w.no = a.worker`,
)

const lastStatement = defineStatement(
  'last_leases_of',
  `select g.place::int, a.event_id, a.subscription, a.token
  from unnest($1::bigint[], $2::text[]) with ordinality as g(event_id, worker_id, place)
  join __schema__.workers w on w.name = g.worker_id
  cross join lateral (
    select a.event_id, a.subscription, a.token
    from __schema__.audit a
    where a.event_id = g.event_id and a.worker = w.no and a.token is not null
    order by a.id desc
    limit 1
  ) as a`,
)

type RecordRow = [
  place: number,
  id: number,
  eventId: number,
  subscription: number,
  workerId: string | null,
  settlement: SettlementRecord['settlement'],
  failures: number,
  maxRetries: number | null,
  statusCode: number | null,
  executionMs: number | null,
  reason: string | null,
  nextAt: Date | null,
  finishedAt: Date,
]

function fromRow(row: RecordRow): SettlementRecord {
  const [, id, eventId, subscription, workerId, settlement, failures, maxRetries, ...rest] = row
  const [statusCode, executionMs, reason, nextAt, finishedAt] = rest
  const what = { id, eventId, subscription, workerId, settlement, failures, maxRetries }
  return { ...what, statusCode, executionMs, reason, nextAt, finishedAt }
}
