import { defineStatement } from '../../db/database.ts'

/**
 * Numbers the deliveries that the lease $2 of the runs $1 granted from lanes. One run per lane is leased at a time, so nobody else
 * numbers the same lane meanwhile, and every lower number is settled, except for deliveries that were redriven. The counter of
 * a lane knows the highest delivered number up to `checked`; only later numbers are read, or else a lane of nothing but burials
 * would be read anew by each lease. Retention writes to the counter what it removes.
 */
export const numberLanes = defineStatement(
  'number_lanes',
  `with granted as materialized (
    select r.id as run_id, r.subscription, r.ordering_key, u.event_id, u.place, coalesce(p.times, 0) as replays
    from __schema__.runs r
    cross join lateral unnest(r.event_ids[1:r.granted]) with ordinality as u(event_id, place)
    left join __schema__.replayed p on p.event_id = u.event_id and p.subscription = r.subscription
    where r.id = any($1::bigint[]) and r.token = $2 and r.ordering_key is not null
  ),
  known as materialized (
    select g.run_id, g.event_id, n.epoch, n.sequence
    from granted g
    join __schema__.lane_numbers n
      on n.event_id = g.event_id and n.subscription = g.subscription and n.replays = g.replays
    where n.event_id = any(array(select g.event_id from granted g))
  ),
  fresh as materialized (
    select g.*, row_number() over (partition by g.run_id order by g.place) as rank
    from granted g
    where not exists (select 1 from known k where k.run_id = g.run_id and k.event_id = g.event_id)
  ),
  counter as materialized (
    select l.run_id, l.subscription, l.ordering_key, c.epoch, c.timeline, coalesce(c.latest, 0) as latest,
      greatest((
        select n.sequence
        from __schema__.lane_numbers n
        where n.subscription = l.subscription and n.ordering_key = l.ordering_key and n.epoch = c.epoch
          and n.sequence > c.checked
          and exists (
            select 1 from __schema__.audit a
            where a.event_id = n.event_id and a.settlement = 'completed' and a.subscription = n.subscription
              and a.id > n.audit_id
              -- and not under a later number, which a replay gave to the same delivery
              and not exists (
                select 1 from __schema__.lane_numbers m
                where m.event_id = n.event_id and m.subscription = n.subscription and m.replays > n.replays
                  and m.audit_id < a.id))
        order by n.sequence desc
        limit 1), c.delivered, 0) as delivered,
      (select count(*) from fresh f where f.run_id = l.run_id) as fresh,
      (select min(k.sequence) from known k where k.run_id = l.run_id and k.epoch = c.epoch) as known
    from (select distinct g.run_id, g.subscription, g.ordering_key from granted g) as l
    left join __schema__.lane_counters c on c.subscription = l.subscription and c.ordering_key = l.ordering_key
  ),
  -- The first new number on a new timeline begins a new epoch: the lost server may have given out more in the old one.
  lane as materialized (
    select c.run_id, c.subscription, c.ordering_key, c.fresh, c.known, c.epoch as epoch_before,
      c.delivered as delivered_before, t.now as timeline,
      case when e.is_new then greatest(extract(epoch from __schema__.clock())::bigint, c.epoch + 1) else c.epoch end as epoch,
      case when e.is_new then 0 else c.latest end as latest,
      case when e.is_new then 0 else c.delivered end as delivered
    from counter c
    cross join (select __schema__.current_timeline() as now) as t
    cross join lateral (
      select c.epoch is null or (c.fresh > 0 and c.timeline <> t.now) as is_new
    ) as e
  ),
  counted as (
    insert into __schema__.lane_counters (subscription, ordering_key, epoch, latest, delivered, checked, touched_at, timeline)
    select l.subscription, l.ordering_key, l.epoch, l.latest + l.fresh, l.delivered,
      case when l.known is null then l.latest else least(l.latest, greatest(l.known - 1, l.delivered)) end,
      __schema__.clock(), l.timeline
    from lane l
    order by l.subscription, l.ordering_key
    on conflict (subscription, ordering_key) do update
    set epoch = excluded.epoch, latest = excluded.latest, delivered = excluded.delivered, checked = excluded.checked,
      touched_at = excluded.touched_at,
      timeline = case when excluded.epoch = lane_counters.epoch then lane_counters.timeline else excluded.timeline end
  ),
  numbered as (
    insert into __schema__.lane_numbers (event_id, subscription, replays, ordering_key, epoch, sequence, audit_id)
    select f.event_id, f.subscription, f.replays, f.ordering_key, l.epoch, l.latest + f.rank,
      coalesce(pg_sequence_last_value('__schema__.audit_id_seq'), 0)
    from fresh f
    join lane l on l.run_id = f.run_id
    returning event_id, subscription, sequence
  )
  select g.run_id, g.event_id, g.ordering_key, coalesce(k.epoch, l.epoch), coalesce(k.sequence, n.sequence),
    case when k.epoch < l.epoch then l.delivered_before else l.delivered end,
    coalesce(k.epoch < l.epoch_before or k.sequence < l.delivered_before, false)
  from granted g
  join lane l on l.run_id = g.run_id
  left join known k on k.run_id = g.run_id and k.event_id = g.event_id
  left join numbered n on n.event_id = g.event_id and n.subscription = g.subscription
  order by g.run_id, g.place`,
)

/** Which of the deliveries of the events $1 to the subscriptions $2 a replay sends again: their place in the list, and the replay. */
export const findReplayed = defineStatement(
  'find_replayed',
  `select g.place, p.replay
  from unnest($1::bigint[], $2::int[]) with ordinality as g(event_id, subscription, place)
  join __schema__.replayed p on p.event_id = g.event_id and p.subscription = g.subscription`,
)

export const recordExchanges = defineStatement(
  'record_exchanges',
  `insert into __schema__.exchanges (event_id, subscription, token, attempt, started_at, request, status_code, response,
    error_class, error, timings)
  select g.event_id, g.subscription, g.token, g.attempt, __schema__.clock() - g.age_ms * interval '1 ms', g.request::json,
    g.status_code, g.response::json, g.error_class, g.error, g.timings::json
  from unnest($1::bigint[], $2::int[], $3::bigint[], $4::int[], $5::int[], $6::text[], $7::smallint[], $8::text[],
      $9::text[], $10::text[], $11::text[])
    as g(event_id, subscription, token, attempt, age_ms, request, status_code, response, error_class, error, timings)
  on conflict do nothing`,
)
