import { type Database, defineStatement } from '../db/database.ts'

export interface Heartbeat {
  readonly runId: number
  readonly token: number
  readonly leaseMs: number
  /** The deliveries of the run that are being attempted now; null: as before. */
  readonly begun: readonly number[] | null
}

export interface HeldRun {
  readonly runId: number
  readonly token: number
  /** Deliveries that an operator has cancelled since. */
  readonly cancelled: readonly number[]
  /** Null: still held, but locked by a transaction that settles it, and so not renewed this time. */
  readonly leasedUntil: Date | null
  /** Its subscription gives out nothing now, so what has not begun is to be handed back. */
  readonly isHeld: boolean
}

/** Renews many leases at once, and says which of them are still held: the others are lost. */
export async function heartbeat(db: Database, beats: readonly Heartbeat[]): Promise<HeldRun[]> {
  const values = [
    beats.map((beat) => beat.runId),
    beats.map((beat) => beat.token),
    beats.map((beat) => beat.leaseMs),
    beats.map((beat) => beat.begun && `{${beat.begun.join(',')}}`),
  ]
  const rows = await db.once<HeldRow>(heartbeatStatement(db), values, {
    durable: false,
    indexPlans: true,
    hashJoins: true,
  })
  return rows.map(([runId, cancelled, leasedUntil, isHeld, token]) => ({
    ...{ runId, token, cancelled: cancelled ?? [], leasedUntil, isHeld },
  }))
}

/**
 * A run that a handler is settling in its own transaction is locked; it is skipped rather than waited for,
 * since nobody can reclaim it either.
 */
const heartbeatStatement = defineStatement(
  'heartbeat',
  `with given as materialized (
    select g.run_id, g.token, g.lease_ms, g.begun::bigint[] as begun
    from unnest($1::bigint[], $2::bigint[], $3::int[], $4::text[]) as g(run_id, token, lease_ms, begun)
  ),
  held as materialized (
    select r.id, r.token, r.cancelled, r.subscription
    from __schema__.runs r
    join given g on g.run_id = r.id and g.token = r.token
    where r.id = any($1) and r.state = 'leased'
  ),
  unlocked as materialized (
    select r.id, g.lease_ms, g.begun
    from __schema__.runs r
    join given g on g.run_id = r.id and g.token = r.token
    where r.id = any($1) and r.state = 'leased'
    for update of r skip locked
  ),
  renewed as (
    update __schema__.runs r
    -- It always moves, if only by a microsecond: so it can be seen that somebody has renewed it.
    set leased_until = greatest(r.leased_until + interval '1 us', __schema__.clock() + u.lease_ms * interval '1 ms'),
      lease_ms = case when r.leased_until > __schema__.clock() + u.lease_ms * interval '1 ms' then r.lease_ms else u.lease_ms end,
      begun = case when u.begun is null then r.begun
        else array(select b.id from unnest(u.begun) as b(id) where b.id = any(r.event_ids[1:r.granted])) end
    from unlocked u
    where r.id = any($1) and r.id = u.id
    returning r.id, r.leased_until
  )
  select h.id, h.cancelled, n.leased_until,
    exists (
      select 1 from __schema__.subscriptions s
      where s.no = h.subscription and s.status not in ('active', 'draining')),
    h.token
  from held h
  left join renewed n on n.id = h.id`,
)

type HeldRow = [
  runId: number,
  cancelled: number[] | null,
  leasedUntil: Date | null,
  isHeld: boolean,
  token: number,
]
