import { defineStatement } from '../db/database.ts'

/*
 * One statement for each table whose old rows simply go. $1 is how long they are kept, in ms; $2 is how many rows go at
 * once, at most. Each gives the number of rows that went.
 */

/** The log has no index on the time, so only its first rows are looked at. A trigger refuses to lose young ones. */
export const pruneAdminLog = defineStatement(
  'prune_admin_log',
  `with oldest as materialized (
    select l.id, l.at from __schema__.admin_log l order by l.id limit $2
  ),
  removed as (
    delete from __schema__.admin_log l
    where l.id = any(array(
      select o.id from oldest o where o.at < __schema__.clock() - $1 * interval '1 ms'))
    returning 1
  )
  select count(*)::int from removed`,
)

export const pruneReplays = defineStatement(
  'prune_replays',
  `with removed as (
    delete from __schema__.replays r
    where r.id in (
      select o.id from __schema__.replays o
      where o.state <> 'running' and o.finished_at < __schema__.clock() - $1 * interval '1 ms'
      order by o.id
      limit $2
      for update skip locked)
    returning 1
  )
  select count(*)::int from removed`,
)

export const pruneCheckpoints = defineStatement(
  'prune_checkpoints',
  `with removed as (
    delete from __schema__.queue_checkpoints c
    where c.id in (
      select o.id from __schema__.queue_checkpoints o
      where o.created_at < __schema__.clock() - $1 * interval '1 ms'
      order by o.created_at
      limit $2
      for update skip locked)
    returning 1
  )
  select count(*)::int from removed`,
)

/** An id begins with the time when it was made, so old rows are found by the primary key. */
export const pruneRecoveries = defineStatement(
  'prune_recoveries',
  `with removed as (
    delete from __schema__.queue_recoveries r
    where r.id in (
      select o.id from __schema__.queue_recoveries o
      where o.id < __schema__.uuid_floor(__schema__.clock() - $1 * interval '1 ms') and o.status <> 'running'
      order by o.id
      limit $2
      for update skip locked)
    returning 1
  )
  select count(*)::int from removed`,
)

/**
 * $1 is the longest time that the hub keeps anything that may name a worker; a type may keep its events for longer. A run
 * that was reclaimed names its last worker, who may still settle it, until another worker leases it.
 */
export const pruneWorkers = defineStatement(
  'prune_workers',
  `with removed as (
    delete from __schema__.workers w
    where w.no in (
      select o.no from __schema__.workers o
      where o.seen_at < __schema__.clock() - interval '1 ms'
          * greatest($1, (select max(t.keep_ms) from __schema__.event_types t))
        and not exists (select 1 from __schema__.runs r where r.worker = o.no and r.state = 'leased')
      order by o.no
      limit $2
      for update skip locked)
    returning 1
  )
  select count(*)::int from removed`,
)

export const pruneIdempotencyKeys = defineStatement(
  'prune_idempotency_keys',
  `with removed as (
    delete from __schema__.idempotency_keys k
    where (k.scope, k.key) in (
      select o.scope, o.key from __schema__.idempotency_keys o
      where o.created_at < __schema__.clock() - $1 * interval '1 ms'
      limit $2)
    returning 1
  )
  select count(*)::int from removed`,
)
