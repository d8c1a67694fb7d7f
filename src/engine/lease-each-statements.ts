import { defineStatement } from '../db/database.ts'

/**
 * Leases one delivery to each of several workers that ask alike: the oldest ready ones, each with a token and a run of its own.
 *
 *   urgent (expires within a minute, up to half) ─┐
 *   oldest of the queue, or of each tag ──────────┴▶ found ─▶ counted ─▶ taken ─▶ places: who gets which delivery
 *
 *   taken ─┬─ a run of one, or of a lane ──▶ whole    ready ──▶ leased
 *          └─ a run of several ────────────▶ split    a new leased run for each place
 *                                          └▶ shrunk  the run goes on without them, or is gone
 *
 * $1 is the subscription, $2 the tags (null: any), $3 and $4 are the tokens and workers, $5 the duration of the lease, $6 says that
 * attempts begin with the lease, $7 that runs whose last worker vanished count, $8 bounds the runs to look at.
 *
 * A caller gets one delivery of this statement, so suspects need no lease of their own.
 */
export const leaseEachStatement = defineStatement(
  'lease_each',
  `with wanted as materialized (
    select s.no as subscription, coalesce(s.drain_fence, 9223372036854775807) as last_id,
      cardinality($3::bigint[]) as places,
      -- half of the leases are for runs that expire soon; of a single lease, every second one: tokens are random
      greatest(cardinality($3) / 2, ($3)[1] % 2) as urgent_places
    from __schema__.subscriptions s
    where s.no = $1::int and s.status in ('active', 'draining')
      and not __schema__.is_limited(s.max_concurrency, s.rate_per_second, s.ramp)
      and not exists (select from __schema__.memory_queues m where m.subscription = s.no)
  ),
  urgent as materialized (
    select w.places, w.urgent_places, r.*
    from wanted w
    cross join lateral (
      select r.id, r.event_ids, r.first_id, r.ordering_key, r.concurrency_key, r.tags, r.expires_at, r.max_failures,
        r.attempts, r.failures, r.suspect
      from __schema__.runs r
      where r.subscription = w.subscription and r.state = 'ready' and r.first_id <= w.last_id
        and (not r.suspect or $7::boolean) and ($2::text[] is null or r.tags && $2)
        and r.expires_at > __schema__.clock() and r.expires_at <= __schema__.clock() + interval '60 s'
      order by r.expires_at
      limit w.urgent_places
      for update skip locked
    ) as r
  ),
  oldest as materialized (
    select w.places, w.urgent_places, r.*
    from wanted w
    cross join lateral (
      select r.id, r.event_ids, r.first_id, r.ordering_key, r.concurrency_key, r.tags, r.expires_at, r.max_failures,
        r.attempts, r.failures, r.suspect
      from __schema__.runs r
      where $2 is null and r.subscription = w.subscription and r.state = 'ready' and r.first_id <= w.last_id
        and (not r.suspect or $7)
        and (r.expires_at is null or r.expires_at > __schema__.clock())
      order by r.first_id
      limit $8::int
      for update skip locked
    ) as r
  ),
  -- Each tag offers its oldest runs.
  oldest_tagged as materialized (
    select distinct on (r.id) w.places, w.urgent_places, r.*
    from wanted w
    cross join unnest($2) as t(tag)
    cross join lateral (
      select o.*
      from __schema__.ready_tags g
      cross join lateral (
        select r.id, r.event_ids, r.first_id, r.ordering_key, r.concurrency_key, r.tags, r.expires_at, r.max_failures,
          r.attempts, r.failures, r.suspect
        from __schema__.runs r
        where r.id = g.run_id and r.state = 'ready' and r.first_id <= w.last_id
          and (not r.suspect or $7)
          and (r.expires_at is null or r.expires_at > __schema__.clock())
        for update skip locked
      ) as o
      where g.subscription = w.subscription and g.tag = t.tag
      order by g.first_id
      limit $8
    ) as r
    order by r.id
  ),
  found as (
    select 0 as urgency, u.* from urgent u
    union all
    select 1, o.* from oldest o where o.id not in (select u.id from urgent u)
    union all
    select 1, o.* from oldest_tagged o where o.id not in (select u.id from urgent u)
  ),
  counted as materialized (
    select o.*,
      sum(o.offered) over (partition by o.urgency order by o.first_id, o.id) - o.offered as before,
      -- urgent deliveries get half of the leases, and what the others leave
      case o.urgency when 0
        then greatest(o.urgent_places, o.places - coalesce(sum(o.offered) filter (where o.urgency = 1) over (), 0))
        else o.places - least(o.urgent_places, coalesce(sum(o.offered) filter (where o.urgency = 0) over (), 0))
      end as room
    from (
      select f.*, case when f.ordering_key is null then cardinality(f.event_ids) else 1 end as offered
      from found f
    ) as o
  ),
  taken as materialized (
    select c.*, c.ordering_key is not null or cardinality(c.event_ids) = 1 as is_whole,
      least(c.offered, c.room - c.before)::int as granted
    from counted c
    where c.before < c.room
  ),
  places as materialized (
    select t.id as run_id, t.offered, t.is_whole, t.concurrency_key, t.tags, t.expires_at, t.max_failures, t.ordering_key, t.suspect,
      u.event_id, case u.place when 1 then t.attempts else 0 end as attempts,
      case u.place when 1 then t.failures else 0 end as failures,
      row_number() over (order by t.urgency, t.first_id, t.id, u.place) as place
    from taken t
    cross join lateral unnest(t.event_ids[1:t.granted]) with ordinality as u(event_id, place)
  ),
  whole as (
    update __schema__.runs r
    set state = 'leased', token = ($3)[p.place], worker = ($4::int[])[p.place], granted = 1, cancelled = null,
      leased_at = __schema__.clock(), leased_until = __schema__.clock() + $5::int * interval '1 ms', lease_ms = $5,
      begun = case when $6::boolean then array[p.event_id] end
    from places p
    where r.id = any(array(select p.run_id from places p where p.is_whole)) and r.id = p.run_id
    returning r.id, r.token, r.leased_until
  ),
  split as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, concurrency_key, tags, expires_at, max_failures,
      attempts, failures, token, worker, granted, leased_at, leased_until, lease_ms, begun)
    select $1, 'leased', array[p.event_id], p.event_id, p.concurrency_key, p.tags, p.expires_at, p.max_failures,
      p.attempts, p.failures, ($3)[p.place], ($4)[p.place], 1, __schema__.clock(),
      __schema__.clock() + $5 * interval '1 ms', $5, case when $6 then array[p.event_id] end
    from places p
    where not p.is_whole
    returning id, token, leased_until
  ),
  -- What is left of a run waits for others. Only its first delivery can have been tried before.
  shrunk as (
    update __schema__.runs r
    set event_ids = t.event_ids[t.granted + 1:], first_id = t.event_ids[t.granted + 1], attempts = 0, failures = 0,
      token = null, worker = null, granted = null, begun = null
    from taken t
    where r.id = any(array(select t.id from taken t where not t.is_whole)) and r.id = t.id
      and t.granted < cardinality(t.event_ids)
  ),
  gone as (
    delete from __schema__.runs r
    using taken t
    where r.id = any(array(select t.id from taken t where not t.is_whole)) and r.id = t.id
      and t.granted = cardinality(t.event_ids)
  )
  select p.place::int, p.run_id, p.offered, cardinality(e.owed) = 1, l.id, p.attempts, p.failures, p.suspect, p.ordering_key,
    date_part('epoch', l.leased_until) * 1000,
    e.id, e.type, e.payload, e.ordering_key, date_part('epoch', e.created_at) * 1000, __schema__.rare_fields(e)
  from (select w.id, w.token, w.leased_until from whole w union all select s.id, s.token, s.leased_until from split s) as l
  join places p on ($3)[p.place] = l.token
  join __schema__.events e on e.id = p.event_id
  where e.id = any(array(select p.event_id from places p))`,
)
