import { type Connection, type Database, defineStatement } from '../db/database.ts'
import type { RetryPolicy } from '../domain/retry.ts'
import { decideSettlement } from '../domain/settlement.ts'
import { cancelTold, type ToldRow } from './cancel.ts'
import { type SettleRequest, settleIn } from './settle.ts'
import { shortenWaits } from './shorten-waits.ts'

export interface Reclaimed {
  readonly subscription: number
  /** The subscription's name, and the event's type. */
  readonly name: string
  readonly type: string | null
  readonly eventId: number
  readonly worker: string | null
  readonly failures: number
  readonly buried: boolean
  /** The lane that stops if it is buried; null: none. */
  readonly stopsLane: string | null
}

/**
 * Takes back runs whose lease has ended. Only deliveries known to have begun are charged with a failure, by
 * the same decision as any other; the rest costs nothing. All of them are suspects now: leased one by one,
 * so that of many that were out together only the culprit is charged again. What an operator has cancelled
 * meanwhile ends here, charged or not.
 */
export async function reclaim(db: Database): Promise<{ runs: number; charged: Reclaimed[] }> {
  return db.transaction((tx) => reclaimIn(tx, db), { indexPlans: true })
}

const runsMax = 100

async function reclaimIn(tx: Connection, db: Database): Promise<{ runs: number; charged: Reclaimed[] }> {
  await shortenWaits(tx, db)
  const expired = await tx.run<ExpiredRow>(findExpired(db), [runsMax])
  if (expired.length === 0) return { runs: 0, charged: [] }

  const charges = expired.flatMap(chargesOf)
  const burials = charges.filter((charge) => charge.buried)
  if (burials.length > 0) await settleIn(tx, db, burials.map(toBurial))
  const retries = charges.filter((charge) => !charge.buried)
  await tx.run(takeBack(db), [
    expired.map(([runId]) => runId),
    retries.map((charge) => charge.runId),
    retries.map((charge) => charge.eventId),
    retries.map((charge) => charge.failures),
  ])
  await cancelTold(tx, db, expired.map(toldOf))
  return { runs: expired.length, charged: charges }
}

interface Charge extends Reclaimed {
  readonly runId: number
  readonly token: number
}

function chargesOf(row: ExpiredRow): Charge[] {
  const [runId, token, subscription, name, worker, begun, types, failures, maxRetries, retry, stopsLane] = row
  const [, told] = toldOf(row)
  return begun.map((eventId, place) => {
    // Only a run's head can have failed before.
    const delivery = { failures: place === 0 ? failures : 0, retry, maxRetries }
    const settlement = decideSettlement(delivery, { kind: 'lease_expired' }, 0)
    const buried = settlement.kind === 'bury' && !told.includes(eventId)
    const type = types[place] ?? null
    return {
      runId,
      token,
      subscription,
      name,
      type,
      worker,
      eventId,
      failures: delivery.failures + 1,
      buried,
      stopsLane,
    }
  })
}

function toldOf({ 2: subscription, 11: told }: ExpiredRow): ToldRow {
  return [subscription, told]
}

function toBurial({ runId, token, eventId, failures }: Charge): SettleRequest {
  return {
    runId,
    token,
    eventId,
    settlement: 'buried',
    afterMs: null,
    failures,
    reason: 'the lease expired',
    cause: 'lease_expired',
    startedAfterMs: null,
    executionMs: null,
    statusCode: null,
  }
}

/** The lock is the guard: a run that was settled or renewed meanwhile no longer qualifies, or is not free. */
const findExpired = defineStatement(
  'find_expired',
  `select r.id, r.token, r.subscription, s.name, w.name,
    array(
      select u.event_id from unnest(r.event_ids) with ordinality as u(event_id, place)
      where u.event_id = any(r.begun) order by u.place),
    array(
      select e.type from unnest(r.event_ids) with ordinality as u(event_id, place)
      join __schema__.events e on e.id = u.event_id
      where u.event_id = any(r.begun) order by u.place),
    r.failures, r.max_failures, s.retry, case when s.on_exhausted = 'block' then r.ordering_key end,
    array(select u.event_id from unnest(r.event_ids) as u(event_id) where u.event_id = any(r.cancelled))
  from __schema__.runs r
  join __schema__.subscriptions s on s.no = r.subscription
  left join __schema__.workers w on w.no = r.worker
  where r.state = 'leased' and r.leased_until < __schema__.clock()
  order by r.leased_until
  limit $1
  for update of r skip locked`,
)

type ExpiredRow = [
  runId: number,
  token: number,
  subscription: number,
  name: string,
  worker: string | null,
  begun: number[],
  types: (string | null)[],
  failures: number,
  maxFailures: number | null,
  retry: RetryPolicy,
  stopsLane: string | null,
  told: number[],
]

/**
 * An unkeyed run of several falls apart into suspects; a single delivery or a lane's run stays as it is. The
 * token stays, so that the worker, if it only slept, can still settle until somebody else has leased; `begun`
 * then says which attempts are already counted.
 */
const takeBack = defineStatement(
  'take_back',
  `with expired as materialized (
    select r.id, r.subscription, r.event_ids, r.ordering_key, r.concurrency_key, r.tags, r.expires_at, r.max_failures,
      r.attempts, r.failures, r.token, r.worker, r.leased_at, r.granted
    from __schema__.runs r
    where r.id = any($1::bigint[]) and r.state = 'leased'
  ),
  charged as materialized (
    select c.run_id, c.event_id, c.failures,
      case when c.event_id = e.event_ids[1] then e.attempts else 0 end + 1 as attempt
    from unnest($2::bigint[], $3::bigint[], $4::int[]) as c(run_id, event_id, failures)
    join expired e on e.id = c.run_id
  ),
  recorded as (
    insert into __schema__.audit (event_id, subscription, settlement, attempt, failures, worker, token, leased_at,
      finished_at, next_at, reason)
    select c.event_id, e.subscription, 'lease_expired', c.attempt, c.failures, e.worker, e.token, e.leased_at,
      __schema__.clock(), __schema__.clock(), 'lease expired'
    from charged c
    join expired e on e.id = c.run_id
  ),
  tallied as (
    insert into __schema__.queue_tallies (subscription, processed, errors, timed, execution_ms)
    select e.subscription, 0, count(*), 0, 0
    from charged c
    join expired e on e.id = c.run_id
    group by e.subscription
  ),
  apart as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, concurrency_key, tags, expires_at,
      max_failures, attempts, failures, suspect, token, worker, granted, begun)
    select e.subscription, 'ready', array[u.event_id], u.event_id, e.concurrency_key, e.tags, e.expires_at,
      e.max_failures, coalesce(c.attempt, 0), coalesce(c.failures, 0), true, e.token, e.worker, 1,
      case when c.event_id is not null then array[c.event_id] end
    from expired e
    cross join lateral unnest(e.event_ids) as u(event_id)
    left join charged c on c.run_id = e.id and c.event_id = u.event_id
    where e.ordering_key is null and cardinality(e.event_ids) > 1
  ),
  gone as (
    delete from __schema__.runs r
    using expired e
    where r.id = any($1) and r.id = e.id and e.ordering_key is null and cardinality(e.event_ids) > 1
  )
  update __schema__.runs r
  set state = 'ready', first_id = r.event_ids[1], suspect = true, leased_at = null, leased_until = null,
    begun = case when c.event_id is not null then array[c.event_id] end,
    attempts = coalesce(c.attempt, e.attempts), failures = coalesce(c.failures, e.failures)
  from expired e
  left join charged c on c.run_id = e.id and c.event_id = e.event_ids[1]
  where r.id = any($1) and r.id = e.id and not (e.ordering_key is null and cardinality(e.event_ids) > 1)`,
)
