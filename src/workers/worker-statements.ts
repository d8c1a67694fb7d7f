import { defineStatement } from '../db/database.ts'

/**
 * `seen_at` never goes back: a worker that was seen in the future shows that the clock was set back. Registering tries this
 * first, because `on conflict` draws a number from the sequence even where it then only updates.
 */
export const touchStatement = defineStatement(
  'touch_worker',
  `update __schema__.workers set seen_at = greatest(seen_at, __schema__.clock()) where name = $1 returning no`,
)

/** Locked in the order of their numbers, so that two processes that touch the same workers cannot deadlock. */
export const touchManyStatement = defineStatement(
  'touch_workers',
  `with living as materialized (
    select w.no from __schema__.workers w where w.name = any($1::text[]) order by w.no for update
  )
  update __schema__.workers w set seen_at = greatest(seen_at, __schema__.clock()) from living l where w.no = l.no`,
)

export const registerStatement = defineStatement(
  'register_worker',
  `insert into __schema__.workers as w (name, seen_at)
  values ($1, __schema__.clock())
  on conflict (name) do update set seen_at = greatest(w.seen_at, excluded.seen_at)
  returning no`,
)

export const listStatement = defineStatement(
  'list_workers',
  `select w.name, w.seen_at as "seenAt", w.in_flight as "inFlight", w.stale_since is not null as stale,
    w.stale_reason as "staleReason", w.stale_since as "staleSince"
  from __schema__.worker_states() as w
  order by w.seen_at desc, w.name
  limit $1`,
)

/** Alive or stale workers, or with null both, beyond the number $2: with higher numbers if $3 is 1, with lower ones if it is -1. */
export const listPageStatement = defineStatement(
  'list_worker_page',
  `select w.name, w.seen_at as "seenAt", w.in_flight as "inFlight", w.stale_since is not null as stale,
    w.stale_reason as "staleReason", w.stale_since as "staleSince", w.no
  from __schema__.worker_states() as w
  where ($1::text is null or ($1 = 'stale') = (w.stale_since is not null)) and (w.no - $2::bigint) * $3::int > 0
  order by w.no * $3::int
  limit $4 offset $5`,
)

export const countStatement = defineStatement(
  'count_workers',
  `select count(*)::int
  from __schema__.worker_states() as w
  where $1::text is null or ($1 = 'stale') = (w.stale_since is not null)`,
)

export const countStatesStatement = defineStatement(
  'count_worker_states',
  `select count(*) filter (where w.stale_since is null)::int as alive,
    count(*) filter (
      where w.stale_since is not null and (w.holds_lease or w.seen_at > __schema__.clock() - interval '10 min'))::int as stale
  from __schema__.worker_states() as w`,
)
