import { defineStatement } from '../db/database.ts'

/*
 * Dead letters that are kept for $1 ms go when that time is over, except those that a blocked lane waits for. An id
 * begins with the time of burial, so it bounds the search; a second more allows for its rounding.
 */

/** $2 is how many letters go at once, at most; $3 is how many bytes of snapshots. */
export const pruneOldLetters = defineStatement(
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
  select (select count(*)::int from chosen),
    (select count(*) from old) = $2 or (select count(*) from chosen) < (select count(*) from old)`,
)

export const countOldLetters = defineStatement(
  'count_old_dead_letters',
  `select count(*)::int
  from __schema__.dead_letters d
  where d.id < __schema__.uuid_floor(__schema__.clock() - $1 * interval '1 ms' + interval '1 s')
    and d.buried_at <= __schema__.clock() - $1 * interval '1 ms'
    and not exists (
      select 1 from __schema__.runs b
      where b.state = 'blocked' and b.blocked_by = d.event_id and b.subscription = d.subscription)`,
)
