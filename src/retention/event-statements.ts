import { defineStatement } from '../db/database.ts'

/*
 * Two statements choose old events; they differ in which events they read. Both take $1: the id to continue after, $2:
 * how long the events are kept, in ms, $3: how many events to read, $4: how many bytes of payloads to take. Ids follow
 * the time of publishing but for a moment, so the first event that is too young ends the pass: to look for older events
 * behind it would mean to read the whole table.
 */

/** Events of the type $5, which has a time of its own to keep them. */
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
  select array(select m.id from measured m where m.fits and not m.is_young order by m.id) as "eventIds",
    coalesce((select max(m.id) from measured m where m.fits and not m.is_young), $1::bigint) as reached,
    (select coalesce(bool_or(m.is_young and m.fits), false) or (count(*) < $3 and coalesce(bool_and(m.fits), true))
      from measured m) as "isOver"`,
)

/** Events of all types that have no time of their own. */
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
      order by m.id) as "eventIds",
    coalesce((select max(m.id) from measured m where m.fits and not m.is_young), $1::bigint) as reached,
    (select coalesce(bool_or(m.is_young and m.fits), false) or (count(*) < $3 and coalesce(bool_and(m.fits), true))
      from measured m) as "isOver"`,
)

export const keepMsOfType = defineStatement(
  'keep_ms_of_type',
  'select t.keep_ms as "keepMs" from __schema__.event_types t where t.type = $1',
)

export const lockOldEvents = defineStatement(
  'lock_old_events',
  'select e.id from __schema__.events e where e.id = any($1::bigint[]) order by e.id for update skip locked',
)

/**
 * Of the events $1, kept for $2 ms, removes those that finished long enough ago, and lists them in `removals` so that
 * their audit follows. An event stays while a dead letter of it can be redriven; `not in` reads those letters once.
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
  select f.event_id as "eventId" from finished f`,
)

/** How many events the statement above would remove. */
export const countFinished = defineStatement(
  'count_finished',
  `select count(*)::int as count
  from __schema__.finished_events($1::bigint[]) as f
  where f.finished_at <= __schema__.clock() - $2 * interval '1 ms'
    and f.event_id not in (
      select l.event_id from __schema__.dead_letters l where l.event_id = any($1) and l.redriven_at is null)`,
)

export const lockEventToPurge = defineStatement(
  'lock_event_to_purge',
  'select e.purged_at as "purgedAt" from __schema__.events e where e.id = $1 for update',
)

export const lockLettersToPurge = defineStatement(
  'lock_letters_to_purge',
  `select d.purged_at as "purgedAt" from __schema__.dead_letters d where d.event_id = $1 order by d.id for update`,
)

/** A row if the event $1 is finished, in memory queues too. */
export const findFinished = defineStatement(
  'is_finished',
  `select f.event_id
  from __schema__.finished_events(array[$1::bigint]) as f
  where not exists (
    select 1
    from __schema__.memory_queues q
    join __schema__.memory_events m on m.subscription = q.subscription and m.event_id = $1 and m.event_id > q.checkpoint)`,
)

/** Of what a receiver answered only the body goes: the headers are a server's own, hidden where they can be secret. */
export const purgeEvent = defineStatement(
  'purge_event',
  `with event as (
    update __schema__.events e
    set payload = 'null', title = null, description = null, attributes = null, purged_at = __schema__.clock()
    where e.id = $1::bigint
  ),
  letters as (
    update __schema__.dead_letters d
    set event_snapshot = __schema__.purged_document(d.event_snapshot, __schema__.clock()), purged_at = __schema__.clock()
    where d.event_id = $1
  ),
  answers as (
    update __schema__.exchanges x
    set response = json_build_object('headers', __schema__.decodable(x.response)->'headers', 'body', '',
      'bytes', __schema__.decodable(x.response)->'bytes')
    where x.event_id = $1 and x.response is not null
  ),
  memory as (
    update __schema__.memory_events m
    set payload = 'null', title = null, description = null, attributes = null
    from __schema__.memory_queues q
    where m.subscription = q.subscription and m.event_id = $1
  ),
  documents as (
    update __schema__.event_queue_state d
    set events = (
      select coalesce(jsonb_agg(u.event order by u.place), '[]')
      from jsonb_array_elements(d.events) with ordinality as u(event, place)
      where u.event->>'eventId' <> $1::text)
    where d.events @> jsonb_build_array(jsonb_build_object('eventId', $1::text))
  )
  select __schema__.clock() as "purgedAt"`,
)
