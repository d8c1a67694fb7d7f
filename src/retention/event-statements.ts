import { defineStatement } from '../db/database.ts'

/*
 * The two statements that choose old events differ in which events they look at. Both take $1: the id to go on after,
 * $2: how long the events are kept, in ms, $3: how many events to look at, $4: how many bytes of payloads to take. Ids
 * follow the time of publishing but for a moment, so the first event that is too young ends the pass: looking for older
 * ones behind it would mean reading the whole table.
 */

/** $5 is a type that says how long its events are kept. */
export const chooseOldOfType = defineStatement(
  'choose_old_of_type',
  `with seen as materialized (
    select e.id, e.created_at, pg_column_size(e.payload) as bytes
    from __schema__.events e
    where e.id > $1 and e.type = $5
    order by e.id
    limit $3::int
  ),
  measured as materialized (
    select s.id,
      bool_or(s.created_at > __schema__.clock() - $2 * interval '1 ms') over (order by s.id) as is_young,
      sum(s.bytes) over (order by s.id) - s.bytes < $4::int as fits
    from seen s
  )
  select array(select m.id from measured m where m.fits and not m.is_young order by m.id),
    coalesce((select max(m.id) from measured m where m.fits and not m.is_young), $1::bigint),
    (select coalesce(bool_or(m.is_young and m.fits), false) or (count(*) < $3 and coalesce(bool_and(m.fits), true))
      from measured m)`,
)

/** All events whose type does not say how long they are kept. */
export const chooseOldEvents = defineStatement(
  'choose_old_events',
  `with seen as materialized (
    select e.id, e.type, e.created_at, pg_column_size(e.payload) as bytes
    from __schema__.events e
    where e.id > $1
    order by e.id
    limit $3::int
  ),
  measured as materialized (
    select s.id, s.type,
      bool_or(s.created_at > __schema__.clock() - $2 * interval '1 ms') over (order by s.id) as is_young,
      sum(s.bytes) over (order by s.id) - s.bytes < $4::int as fits
    from seen s
  )
  select array(
      select m.id from measured m
      where m.fits and not m.is_young and not exists (
        select 1 from __schema__.event_types t where t.type = m.type and t.keep_ms is not null)
      order by m.id),
    coalesce((select max(m.id) from measured m where m.fits and not m.is_young), $1::bigint),
    (select coalesce(bool_or(m.is_young and m.fits), false) or (count(*) < $3 and coalesce(bool_and(m.fits), true))
      from measured m)`,
)

export const keepMsOfType = defineStatement(
  'keep_ms_of_type',
  'select t.keep_ms from __schema__.event_types t where t.type = $1',
)

export const lockOldEvents = defineStatement(
  'lock_old_events',
  'select e.id from __schema__.events e where e.id = any($1::bigint[]) order by e.id for update skip locked',
)

/**
 * Of the events $1, kept for $2 ms, removes those that finished long enough ago, and notes them so that their audit
 * follows. An event stays while somebody could redrive a dead letter of it; `not in` reads those letters once.
 */
export const removeFinished = defineStatement(
  'remove_events',
  `with finished as materialized (
    select f.event_id, f.finished_at
    from __schema__.finished_events($1::bigint[]) as f
    where f.finished_at <= __schema__.clock() - $2 * interval '1 ms'
      and f.event_id not in (
        select l.event_id from __schema__.dead_letters l where l.event_id = any($1) and l.redriven_at is null)
  ),
  removed as (
    delete from __schema__.events e where e.id = any(array(select f.event_id from finished f))
  ),
  noted as (
    insert into __schema__.removals (event_ids, finished_at)
    select array_agg(f.event_id order by f.event_id), max(f.finished_at) from finished f having count(*) > 0
  )
  select f.event_id from finished f`,
)

/** Counts the events that the statement above would remove. */
export const countFinished = defineStatement(
  'count_finished',
  `select count(*)::int
  from __schema__.finished_events($1::bigint[]) as f
  where f.finished_at <= __schema__.clock() - $2 * interval '1 ms'
    and f.event_id not in (
      select l.event_id from __schema__.dead_letters l where l.event_id = any($1) and l.redriven_at is null)`,
)
