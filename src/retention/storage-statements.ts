import { defineStatement } from '../db/database.ts'

export const tableSizes = defineStatement(
  'table_sizes',
  `select c.relname as table, pg_total_relation_size(c.oid)::float8 as bytes, pg_relation_size(c.oid)::float8 as "heapBytes",
    c.reltuples::float8 as estimate
  from pg_class c
  where c.relnamespace = '__schema__'::regnamespace and c.relkind = 'r'
  order by 2 desc, 1`,
)

/** The time of the oldest row of each table, by table name. */
export const oldestStored = defineStatement(
  'oldest_stored',
  `select
    (select e.created_at from __schema__.events e order by e.id limit 1) as events,
    (select a.finished_at from __schema__.audit a order by a.event_id, a.settlement limit 1) as audit,
    (select d.buried_at from __schema__.dead_letters d order by d.id limit 1) as dead_letters,
    (select min(k.created_at) from __schema__.idempotency_keys k) as idempotency_keys,
    (select min(r.finished_at) from __schema__.removals r) as removals,
    (select l.at from __schema__.admin_log l order by l.id limit 1) as admin_log,
    (select r.created_at from __schema__.replays r order by r.id limit 1) as replays,
    (select min(c.created_at) from __schema__.queue_checkpoints c) as queue_checkpoints,
    (select r.recovery_start_time from __schema__.queue_recoveries r order by r.id limit 1) as queue_recoveries`,
)
