import { type Database, defineStatement } from '../db/database.ts'

export interface LaneRequest {
  readonly subscription: number
  readonly orderingKey: string
}

/**
 * Lets a blocked lane go on without its buried head. `skip` leaves the head among the dead letters, `discard`
 * takes it from there for good. Returns the head's event id, or undefined if the lane is not blocked.
 */
export async function unblockLane(
  db: Database,
  request: LaneRequest & { readonly verb: 'skip' | 'discard'; readonly by?: string },
): Promise<number | undefined> {
  const { subscription, orderingKey, verb, by } = request
  const reason = by === undefined ? 'discarded' : `discarded by ${by}`
  const values = [subscription, orderingKey, verb === 'discard', reason]
  const rows = await db.once<[eventId: number]>(unblockStatement(db), values, {})
  return rows[0]?.[0]
}

/** The dead letter that blocks a lane, if it is blocked: redriving it retries the head. */
export async function blockingLetter(db: Database, request: LaneRequest): Promise<string | undefined> {
  const rows = await db.run<[id: string]>(blockingLetterStatement(db), [
    request.subscription,
    request.orderingKey,
  ])
  return rows[0]?.[0]
}

/** The CTEs that let the runs of a CTE `blocked` go on. */
export const goOn = `going_on as (
    update __schema__.runs r
    set state = (case when b.concurrency_key is null then 'ready' else 'gated' end)::__schema__.run_state,
      blocked_by = null, attempts = 0, failures = 0
    from blocked b
    where r.id = b.id and b.event_ids <> '{}'
  ),
  gone as (
    delete from __schema__.runs r using blocked b where r.id = b.id and b.event_ids = '{}'
  ),
  noted as (
    insert into __schema__.inbox (subscription, ordering_keys, positions, concurrency_keys)
    select b.subscription, array[case when b.event_ids = '{}' then b.ordering_key end], array[b.position],
      array[b.concurrency_key]
    from blocked b
  )`

const unblockStatement = defineStatement(
  'unblock_lane',
  `with blocked as materialized (
    select r.id, r.subscription, r.event_ids, r.ordering_key, r.position, r.concurrency_key, r.blocked_by
    from __schema__.runs r
    where r.subscription = $1 and r.ordering_key = $2 and r.state = 'blocked'
    for update
  ),
  ${goOn},
  discarded as (
    delete from __schema__.dead_letters d
    using blocked b
    where $3 and d.event_id = b.blocked_by and d.subscription = b.subscription and d.redriven_at is null
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, finished_at, reason)
    select b.blocked_by, b.subscription, 'discarded', 0, __schema__.clock(), $4
    from blocked b
    where $3
  )
  select b.blocked_by from blocked b`,
)

const blockingLetterStatement = defineStatement(
  'blocking_letter',
  `select d.id
  from __schema__.runs r
  join __schema__.dead_letters d on d.event_id = r.blocked_by and d.subscription = r.subscription
  where r.subscription = $1 and r.ordering_key = $2 and r.state = 'blocked' and d.redriven_at is null`,
)
