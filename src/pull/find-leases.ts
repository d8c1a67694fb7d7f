import { numberArray, textArray } from '../db/array.ts'
import { type Database, defineStatement } from '../db/database.ts'
import type { LeaseToken } from '../domain/lease-token.ts'

/** A worker's claim to hold a delivery: by the token of the lease, or by the worker's name. */
export type LeaseClaim = { readonly eventId: number } & (
  | { readonly token: LeaseToken }
  | { readonly workerId: string }
)

/** A lease that still counts: it is in force, or it has ended and nobody else has leased the delivery since. */
export interface FoundLease {
  readonly runId: number
  readonly token: number
  readonly subscription: number
  /** Failures before this attempt. */
  readonly failures: number
  /** The event's own limit, if it has one. */
  readonly maxFailures: number | null
  readonly inForce: boolean
  readonly type: string | null
  readonly orderingKey: string | null
  /** The worker that holds the lease. */
  readonly workerId: string | null
}

/** For each claim, in order, every lease that it can mean; none if the lease is lost or settled. */
export async function findLeases(db: Database, claims: readonly LeaseClaim[]): Promise<FoundLease[][]> {
  const found: FoundLease[][] = claims.map(() => [])
  const byToken = claims.flatMap((claim, place) => ('token' in claim ? [{ place, ...claim }] : []))
  const byWorker = claims.flatMap((claim, place) => ('workerId' in claim ? [{ place, ...claim }] : []))
  const rows: LeaseRow[] = []
  if (byToken.length > 0) {
    rows.push(
      ...(await db.once<LeaseRow>(
        findByToken(db),
        [
          numberArray(byToken.map(({ place }) => place)),
          numberArray(byToken.map(({ eventId }) => eventId)),
          numberArray(byToken.map(({ token }) => token.runId)),
          numberArray(byToken.map(({ token }) => token.token)),
          numberArray(byToken.map(({ token }) => token.subscription)),
        ],
        plans,
      )),
    )
  }
  if (byWorker.length > 0) {
    rows.push(
      ...(await db.once<LeaseRow>(
        findByWorker(db),
        [
          numberArray(byWorker.map(({ place }) => place)),
          numberArray(byWorker.map(({ eventId }) => eventId)),
          textArray(byWorker.map(({ workerId }) => workerId)),
        ],
        plans,
      )),
    )
  }
  for (const row of rows) found[row[0]]?.push(fromRow(row))
  return found
}

const plans = { durable: false, indexPlans: true, hashJoins: true } as const

/** A reclaim has already counted the failure that the worker reports now, so that failure is subtracted. */
const leaseColumns = `g.place, r.id, r.token, r.subscription,
    case when r.event_ids[1] = g.event_id then r.failures else 0 end
      - case when r.state <> 'leased' and g.event_id = any(r.begun) then 1 else 0 end,
    r.max_failures, r.state = 'leased', e.type, e.ordering_key,
    (select w.name from __schema__.workers w where w.no = r.worker)`

/** Finds the run as it was leased, or the run of one delivery that a reclaim has made of it, which still has the token. */
const findByToken = defineStatement(
  'find_leases_by_token',
  `with given as materialized (
    select g.place, g.event_id, g.run_id, g.token, g.subscription
    from unnest($1::int[], $2::bigint[], $3::bigint[], $4::bigint[], $5::int[]) as g(place, event_id, run_id, token, subscription)
  ),
  held as materialized (
    select g.place, g.event_id, r.id as run_id
    from given g
    join __schema__.runs r on r.id = g.run_id and r.token = g.token
    where r.id = any($3) and g.event_id = any(r.event_ids[1:r.granted])
    union
    select g.place, g.event_id, r.id
    from given g
    cross join lateral (
      select r.id
      from __schema__.runs r
      where r.subscription = g.subscription and r.state = 'ready' and r.first_id = g.event_id and r.token = g.token
    ) as r
  )
  select ${leaseColumns}
  from held g
  join __schema__.runs r on r.id = g.run_id
  join __schema__.events e on e.id = g.event_id
  where r.id = any(array(select h.run_id from held h)) and e.id = any($2)`,
)

/** Finds what the worker holds; if it holds nothing of the event, what a reclaim took from it and nobody has leased since. */
const findByWorker = defineStatement(
  'find_leases_by_worker',
  `with given as materialized (
    select g.place, g.event_id, w.no as worker
    from unnest($1::int[], $2::bigint[], $3::text[]) as g(place, event_id, worker_id)
    join __schema__.workers w on w.name = g.worker_id
  ),
  leased as materialized (
    select r.id, r.worker, unnest(r.event_ids[1:r.granted]) as event_id
    from __schema__.runs r
    where r.state = 'leased' and r.worker = any(array(select g.worker from given g))
  ),
  held as materialized (
    select g.place, g.event_id, l.id as run_id
    from given g
    join leased l on l.event_id = g.event_id and l.worker = g.worker
  ),
  late as materialized (
    select g.place, g.event_id, r.id as run_id
    from given g
    join __schema__.events e on e.id = g.event_id
    cross join lateral (
      select r.id
      from __schema__.runs r
      where r.subscription = any(e.owed) and r.state = 'ready' and r.first_id = g.event_id and r.worker = g.worker
        and r.token is not null
    ) as r
    where e.id = any($2) and g.place not in (select h.place from held h)
  ),
  meant as materialized (
    select h.place, h.event_id, h.run_id from held h
    union all
    select l.place, l.event_id, l.run_id from late l
  )
  select ${leaseColumns}
  from meant g
  join __schema__.runs r on r.id = g.run_id
  join __schema__.events e on e.id = g.event_id
  where r.id = any(array(select m.run_id from meant m)) and e.id = any($2)`,
)

type LeaseRow = [
  place: number,
  runId: number,
  token: number,
  subscription: number,
  failures: number,
  maxFailures: number | null,
  inForce: boolean,
  type: string | null,
  orderingKey: string | null,
  workerId: string | null,
]

function fromRow(row: LeaseRow): FoundLease {
  const [, runId, token, subscription, failures, maxFailures, inForce, ...rest] = row
  const [type, orderingKey, workerId] = rest
  return { runId, token, subscription, failures, maxFailures, inForce, type, orderingKey, workerId }
}
