import { setTimeout as delay } from 'node:timers/promises'
import type { Admitter } from './admit.ts'

/** What moves from row to row, or is locked by somebody who settles it, escapes a round; it has two seconds to stand still. */
export const roundsMax = 40
const roundPauseMs = 50
/** Of each round: some 100,000 arrivals, or a moment's patience with somebody else who lets them in. */
const admissionsMax = 10
const busyPauseMs = 20

/** Until nothing is left at the door, or it has taken long: publishers may be faster. */
export async function admitArrivals(admitter: Admitter): Promise<void> {
  for (let turn = 0; turn < admissionsMax; turn++) {
    const { busy, drained } = await admitter.admit()
    if (drained) return
    if (busy) await delay(busyPauseMs)
  }
}

/** Between two rounds. */
export async function untilNextRound(): Promise<void> {
  await delay(roundPauseMs)
}

export interface TakeOut {
  /** SQL: which runs `r` may be touched. */
  readonly runs: string
  /** SQL: whether the lane of a run `h` stops at what is taken out of it. */
  readonly stops: string
}

/**
 * The CTEs that take deliveries out of wherever they wait: $1 are their events, $2 their subscription or null for all.
 * `hit` is what was found, with what a lease had granted of it marked as told: that stays where it is. The lane that
 * loses its head goes on, or stops. What somebody else has locked is left to the next round: whoever waited for it here
 * would hold up all others whose rows are locked already.
 */
export function takeOut({ runs, stops }: TakeOut): string {
  return `hit_runs as materialized (
    select r.id, r.subscription, r.state, r.event_ids, r.ordering_key, r.position, r.concurrency_key, r.attempts,
      r.failures, coalesce(r.granted, 0) as granted
    from __schema__.runs r
    where r.event_ids && $1::bigint[] and ($2::int is null or r.subscription = $2) and ${runs}
    order by r.id
    for update skip locked
  ),
  hit_chunks as materialized (
    select q.subscription, q.ordering_key, q.position, q.event_ids, q.attempts
    from __schema__.lane_queue q
    where q.event_ids && $1::bigint[] and ($2::int is null or q.subscription = $2)
    order by q.subscription, q.ordering_key, q.position
    for update skip locked
  ),
  hit as materialized (
    select h.id as run_id, h.subscription, u.event_id,
      h.state = 'leased' and u.place <= h.granted as told,
      case when u.place = 1 then h.attempts else 0 end as attempts,
      case when u.place = 1 then h.failures else 0 end as failures
    from hit_runs h
    cross join lateral unnest(h.event_ids) with ordinality as u(event_id, place)
    where u.event_id = any($1)
    union all
    select null, h.subscription, u.event_id, false, h.attempts, 0
    from hit_chunks h
    cross join lateral unnest(h.event_ids) as u(event_id)
    where u.event_id = any($1)
  ),
  left_over as materialized (
    select h.*, ${stops} as stops, array(
      select u.event_id
      from unnest(h.event_ids) with ordinality as u(event_id, place)
      where u.event_id <> all($1) or (h.state = 'leased' and u.place <= h.granted)
      order by u.place) as remaining, (
      select count(*) from unnest(h.event_ids[1:h.granted]) as u(event_id)
      where u.event_id <> all($1) or h.state = 'leased')::smallint as still_granted
    from hit_runs h
  ),
  gone as (
    delete from __schema__.runs r
    where r.id = any(array(
      select l.id from left_over l where l.remaining = '{}' and l.state <> 'blocked' and not l.stops))
  ),
  kept as (
    update __schema__.runs r
    set event_ids = l.remaining, first_id = coalesce(l.remaining[1], r.first_id),
      attempts = case when l.remaining[1] = l.event_ids[1] then r.attempts else 0 end,
      failures = case when l.remaining[1] = l.event_ids[1] then r.failures else 0 end,
      -- A lane that waited for the retry of its head goes on. No gate has to let it: a run with a concurrency key is one delivery.
      state = (case when l.stops then 'blocked' when l.goes_on then 'ready' else l.state::text end)::__schema__.run_state,
      due_at = case when l.stops or l.goes_on then null else r.due_at end,
      -- A lease that was taken back may still settle what it had granted, and nothing that came after that.
      token = case when l.fenced then r.token end,
      granted = case when l.fenced then l.still_granted end,
      begun = case when l.fenced then r.begun end,
      suspect = r.suspect and coalesce(l.remaining[1] = l.event_ids[1], false),
      blocked_by = case when l.stops then l.event_ids[1] else r.blocked_by end,
      cancelled = case when l.state = 'leased'
        then r.cancelled || array(
          select h.event_id from hit h
          where h.run_id = l.id and h.told and h.event_id <> all(coalesce(r.cancelled, '{}'))) end
    from (
      select o.*, o.ordering_key is not null and o.state = 'deferred' and o.remaining[1] <> o.event_ids[1] as goes_on,
        o.still_granted > 0 and not o.stops as fenced
      from left_over o
    ) as l
    where r.id = any(array(select h.id from hit_runs h)) and r.id = l.id
      and (l.remaining <> '{}' or l.state = 'blocked' or l.stops)
  ),
  gone_chunks as (
    delete from __schema__.lane_queue q
    using hit_chunks h
    where q.subscription = h.subscription and q.ordering_key = h.ordering_key and q.position = h.position
      and h.event_ids <@ $1
  ),
  kept_chunks as (
    update __schema__.lane_queue q
    set event_ids = array(
      select u.event_id from unnest(h.event_ids) with ordinality as u(event_id, place)
      where u.event_id <> all($1) order by u.place)
    from hit_chunks h
    where q.subscription = h.subscription and q.ordering_key = h.ordering_key and q.position = h.position
      and not h.event_ids <@ $1
  ),
  noted as (
    insert into __schema__.inbox (subscription, ordering_keys, positions, concurrency_keys)
    select l.subscription, array_agg(case when not l.stops then l.ordering_key end), array_agg(l.position),
      array_agg(l.concurrency_key)
    from left_over l
    where l.remaining = '{}' and l.state not in ('delayed', 'held', 'blocked')
      and num_nonnulls(case when not l.stops then l.ordering_key end, l.concurrency_key) > 0
    group by l.subscription
  )`
}
