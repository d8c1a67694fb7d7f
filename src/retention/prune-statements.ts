import { defineStatement } from '../db/database.ts'

/*
 * Tables whose old rows simply go, with the statement that removes them. $1 is how long rows are kept, in ms; $2 is how
 * many rows go at once, at most.
 */
export const removeOldRecords = {
  // The log has no index on the time, so only its first rows are read. A trigger refuses to delete young ones.
  admin_log: defineStatement(
    'prune_admin_log',
    `delete from __schema__.admin_log l
    where l.id = any(array(
      select o.id
      from (select f.id, f.at from __schema__.admin_log f order by f.id limit $2) as o
      where o.at < __schema__.clock() - $1 * interval '1 ms'))`,
  ),
  replays: defineStatement(
    'prune_replays',
    `delete from __schema__.replays r
    where r.id in (
      select o.id from __schema__.replays o
      where o.state <> 'running' and o.finished_at < __schema__.clock() - $1 * interval '1 ms'
      order by o.id
      limit $2
      for update skip locked)`,
  ),
  queue_checkpoints: defineStatement(
    'prune_checkpoints',
    `delete from __schema__.queue_checkpoints c
    where c.id in (
      select o.id from __schema__.queue_checkpoints o
      where o.created_at < __schema__.clock() - $1 * interval '1 ms'
      order by o.created_at
      limit $2
      for update skip locked)`,
  ),
  // An id begins with the time when it was made, so the primary key finds old rows.
  queue_recoveries: defineStatement(
    'prune_recoveries',
    `delete from __schema__.queue_recoveries r
    where r.id in (
      select o.id from __schema__.queue_recoveries o
      where o.id < __schema__.uuid_floor(__schema__.clock() - $1 * interval '1 ms') and o.status <> 'running'
      order by o.id
      limit $2
      for update skip locked)`,
  ),
  // $1 is the longest time for which the hub keeps anything that names a worker; a type may keep its events for longer. A
  // run that was reclaimed names its last worker, which may still settle it, until another worker leases it.
  workers: defineStatement(
    'prune_workers',
    `delete from __schema__.workers w
    where w.no in (
      select o.no from __schema__.workers o
      where o.seen_at < __schema__.clock() - interval '1 ms'
          * greatest($1, (select max(t.keep_ms) from __schema__.event_types t))
        and not exists (select 1 from __schema__.runs r where r.worker = o.no and r.state = 'leased')
      order by o.no
      limit $2
      for update skip locked)`,
  ),
  idempotency_keys: defineStatement(
    'prune_idempotency_keys',
    `delete from __schema__.idempotency_keys k
    where (k.scope, k.key) in (
      select o.scope, o.key from __schema__.idempotency_keys o
      where o.created_at < __schema__.clock() - $1 * interval '1 ms'
      limit $2)`,
  ),
}

/*
 * Dead letters that are kept for $1 ms go when that time is over, except those that a blocked lane waits for. An id
 * begins with the time of burial, so it bounds the search; a second more allows for its rounding.
 */

/** At most $2 letters go at once, and about $3 bytes of snapshots. */
export const pruneDeadLetters = defineStatement(
  'prune_dead_letters',
  `with old as materialized (
    select d.id, pg_column_size(d.event_snapshot) as bytes
    from __schema__.dead_letters d
    where d.id < __schema__.uuid_floor(__schema__.clock() - $1 * interval '1 ms' + interval '1 s')
      and d.buried_at <= __schema__.clock() - $1 * interval '1 ms'
      and not exists (
        select 1 from __schema__.runs b
        where b.state = 'blocked' and b.blocked_by = d.event_id and b.subscription = d.subscription)
    order by d.id
    limit $2::int
    for update skip locked
  ),
  chosen as materialized (
    select m.id
    from (select o.id, sum(o.bytes) over (order by o.id) - o.bytes as bytes_before from old o) as m
    where m.bytes_before < $3::int
  ),
  removed as (
    delete from __schema__.dead_letters d where d.id = any(array(select c.id from chosen c))
  )
  select (select count(*)::int from chosen) as removed,
    (select count(*) from old) = $2 or (select count(*) from chosen) < (select count(*) from old) as more`,
)

export const countOldDeadLetters = defineStatement(
  'count_old_dead_letters',
  `select count(*)::int as count
  from __schema__.dead_letters d
  where d.id < __schema__.uuid_floor(__schema__.clock() - $1 * interval '1 ms' + interval '1 s')
    and d.buried_at <= __schema__.clock() - $1 * interval '1 ms'
    and not exists (
      select 1 from __schema__.runs b
      where b.state = 'blocked' and b.blocked_by = d.event_id and b.subscription = d.subscription)`,
)

/**
 * Reads the next $4 lanes after ($1, $2) and removes the counters of those that were idle for $3 ms. A lane that has a
 * run may be numbered at this moment, so it stays.
 */
export const pruneIdleLanes = defineStatement(
  'prune_lanes',
  `with seen as materialized (
    select c.subscription, c.ordering_key, c.touched_at
    from __schema__.lane_counters c
    where (c.subscription, c.ordering_key) > ($1::int, $2)
    order by c.subscription, c.ordering_key
    limit $4
  ),
  removed as (
    delete from __schema__.lane_counters c
    using seen s
    where c.subscription = s.subscription and c.ordering_key = s.ordering_key
      and s.touched_at < __schema__.clock() - $3 * interval '1 ms'
      and c.touched_at < __schema__.clock() - $3 * interval '1 ms'
      and not exists (
        select 1 from __schema__.runs r
        where r.subscription = s.subscription and r.ordering_key = s.ordering_key and r.state not in ('delayed', 'held'))
    returning 1
  ),
  last as (
    select s.subscription, s.ordering_key from seen s order by s.subscription desc, s.ordering_key desc limit 1
  )
  select (select count(*)::int from removed) as removed, (select count(*)::int from seen) as seen,
    coalesce((select l.subscription from last l), 0) as reached,
    coalesce((select l.ordering_key from last l), '') as "reachedKey"`,
)

/** Lets the process $1 prune for $2 ms, unless it is another process's turn. */
export const takePruneTurn = defineStatement(
  'take_prune_turn',
  `insert into __schema__.retention_walks as w (name, holder, due_at)
  values ('turn', $1, __schema__.clock() + $2 * interval '1 ms')
  on conflict (name) do update
  set holder = excluded.holder, due_at = excluded.due_at
  where w.holder = excluded.holder or w.due_at not between __schema__.clock() and excluded.due_at
  returning w.name`,
)

export const makeWalk = defineStatement(
  'make_walk',
  'insert into __schema__.retention_walks (name) values ($1) on conflict do nothing',
)

/** A time that lies more than a day ahead was written before the clock was set back, and counts as due. */
export const takeWalkWhenDue = defineStatement(
  'take_walk_when_due',
  `select w.name, w.reached, w.reached_key as "reachedKey", w.kept
  from __schema__.retention_walks w
  where w.name = $1 and w.due_at not between __schema__.clock() and __schema__.clock() + interval '1 day'
  for update skip locked`,
)

export const takeWalkNow = defineStatement(
  'take_walk_now',
  `select w.name, w.reached, w.reached_key as "reachedKey", w.kept
  from __schema__.retention_walks w
  where w.name = $1
  for update`,
)

export const continuePass = defineStatement(
  'continue_pass',
  'update __schema__.retention_walks set reached = $2, reached_key = $3, kept = $4 where name = $1',
)

/** The next pass begins after $2, in $3 ms; once a day it begins at the start. */
export const endPass = defineStatement(
  'end_pass',
  `update __schema__.retention_walks w
  set reached = case when f.is_due then 0 else $2::bigint end, reached_key = '', kept = null,
    full_at = case when f.is_due then __schema__.clock() else w.full_at end,
    due_at = __schema__.clock() + $3 * interval '1 ms'
  from (
    select o.full_at not between __schema__.clock() - interval '1 day' and __schema__.clock() as is_due
    from __schema__.retention_walks o
    where o.name = $1
  ) as f
  where w.name = $1`,
)

export const restartWalk = defineStatement(
  'restart_walk',
  `insert into __schema__.retention_walks (name, due_at, full_at)
  values ($1, __schema__.clock(), __schema__.clock())
  on conflict (name) do update
  set reached = 0, reached_key = '', kept = null, due_at = excluded.due_at, full_at = excluded.full_at`,
)
