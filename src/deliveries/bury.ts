import { type Database, defineStatement } from '../db/database.ts'
import type { Admitter } from '../engine/admit.ts'
import { admitArrivals, roundsMax, takeOut, untilNextRound } from '../engine/take-out.ts'
import { PosthornError } from '../errors.ts'

export interface DeliveryRequest {
  readonly eventId: number
  readonly subscription: number
}

export interface Buried {
  /** The subscription's name, and the event's type. */
  readonly name: string
  readonly type: string | null
  /** The lane that stops at it; null: none. */
  readonly stopsLane: string | null
}

export interface BuryRequest extends DeliveryRequest {
  readonly reason: string
  /** What becomes of the lane that loses its head: as the subscription says, or it goes on in any case. */
  readonly lane: 'as usual' | 'goes on'
}

/**
 * Makes a dead letter of a delivery that waits, wherever it is. If it was the head of its lane, the lane goes on or
 * stops, as after any burial; from the middle of a lane it is taken without stopping it. Undefined: it does not wait,
 * or a worker has it.
 */
export async function buryWaiting(
  db: Database,
  admitter: Admitter,
  request: BuryRequest,
): Promise<Buried | undefined> {
  const { eventId, subscription, reason, lane } = request
  const values = [[eventId], subscription, reason, lane === 'as usual']
  for (let round = 0; round < roundsMax; round++) {
    await admitArrivals(admitter)
    const [row] = await db.once<BuriedRow>(buryStatement(db), values, {})
    if (row !== undefined) return { name: row[0], type: row[1], stopsLane: row[2] }
    if (!(await waits(db, request))) return undefined
    await untilNextRound()
  }
  throw new PosthornError('STILL_MOVING', { eventId, rounds: roundsMax })
}

/** Whether it can still be buried: it was on its way from one row to another. */
async function waits(db: Database, { eventId, subscription }: DeliveryRequest): Promise<boolean> {
  const [row] = await db.run<[waits: boolean]>(waitsStatement(db), [eventId, subscription])
  return (row as [boolean])[0]
}

const isFree = (ids: string) => `not (r.state = 'leased' and r.event_ids[1:r.granted] && ${ids})`

const buryStatement = defineStatement(
  'bury_waiting',
  `with ${takeOut({
    runs: isFree('$1'),
    stops: `($4 and h.ordering_key is not null and h.state not in ('leased', 'delayed', 'held', 'blocked') and h.event_ids[1] = any($1)
      and exists (
        select 1 from __schema__.subscriptions p where p.no = h.subscription and p.on_exhausted = 'block'))`,
  })},
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, finished_at, reason)
    select h.event_id, h.subscription, 'buried', h.attempts, h.failures, __schema__.clock(), $3
    from hit h
  ),
  buried as (
    insert into __schema__.dead_letters (id, event_id, subscription, kind, reason, attempts, failures,
      event_snapshot, subscription_snapshot, buried_at)
    select __schema__.uuid_v7(), h.event_id, h.subscription, 'buried', $3, h.attempts, h.failures,
      __schema__.event_document(e), __schema__.subscriber_document(p), __schema__.clock()
    from hit h
    join __schema__.events e on e.id = h.event_id
    join __schema__.subscriptions p on p.no = h.subscription
  )
  select p.name, e.type, (select l.ordering_key from left_over l where l.stops and l.id = h.run_id)
  from hit h
  join __schema__.events e on e.id = h.event_id
  join __schema__.subscriptions p on p.no = h.subscription`,
)

const waitsStatement = defineStatement(
  'delivery_waits',
  `select exists (
      select 1 from __schema__.inbox i where i.event_ids @> array[$1::bigint] and i.subscription = $2)
    or exists (
      select 1 from __schema__.lane_queue q where q.event_ids @> array[$1::bigint] and q.subscription = $2)
    or exists (
      select 1 from __schema__.runs r
      where r.event_ids @> array[$1::bigint] and r.subscription = $2 and ${isFree('array[$1::bigint]')})`,
)

type BuriedRow = [name: string, type: string | null, stopsLane: string | null]
