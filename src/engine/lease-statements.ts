import { defineStatement } from '../db/database.ts'
import { eventColumns } from './event-row.ts'

const runColumns = `r.id, r.subscription, r.event_ids, r.first_id, r.ordering_key, r.tags, r.expires_at,
        r.max_failures, r.suspect`

/** Jumps along the index from one subscription to the next: its cost grows with those that have something, not with all. */
const ready = `
  ready(subscription) as (
    select min(r.subscription) from __schema__.runs r where r.state = 'ready'
    union all
    select (
      select min(r.subscription) from __schema__.runs r
      where r.state = 'ready' and r.subscription > y.subscription)
    from ready y
    where y.subscription is not null
  )`

const wanted = (isWorth: string) => `
  wanted as materialized (
    select w.subscription, w.events_max, w.runs_max, w.suspects, w.lease_ms, w.lane_max, s.drain_fence as fence
    from unnest($1::int[], $2::int[], $3::int[], $4::boolean[], $5::int[], $9::int[], $10::boolean[], $11::boolean[],
        $12::bigint[])
      as w(subscription, events_max, runs_max, suspects, lease_ms, lane_max, limited, probe, memory_token)
    join __schema__.subscriptions s on s.no = w.subscription
    where (s.status in ('active', 'draining') or (w.probe and s.status = 'suspended')) and ${isWorth}
      -- a caller that has not yet heard of a limit gets nothing until it has
      and (w.limited or not __schema__.is_limited(s.max_concurrency, s.rate_per_second, s.ramp))
      -- a process may have older events of the same lanes in its memory, also while it moves them to the database
      and not exists (
        select from __schema__.memory_queues m
        where m.subscription = w.subscription and (m.token = w.memory_token) is not true)
  )`

/** A queue that drains gives out nothing that came later; of lanes, admit lets nothing in. */
const isOwn = 'r.first_id <= coalesce(w.fence, 9223372036854775807)'

/** At most half of a claim; of claims of one each second, by chance: the token is random, or counts the claims of a process. */
const half = (all: string) => `greatest(${all} / 2, $6::bigint % 2)`

const ending = (isWanted: string) => `ending as materialized (
    select w.events_max, w.lease_ms, w.lane_max, r.*
    from wanted w
    cross join lateral (
      select ${runColumns}
      from __schema__.runs r
      where r.subscription = w.subscription and r.state = 'ready' and not r.suspect and ${isWanted} and ${isOwn}
        and r.expires_at > __schema__.clock() and r.expires_at <= __schema__.clock() + interval '60 s'
      order by r.expires_at
      limit ${half('w.runs_max')}
      for update skip locked
    ) as r
  )`

/** What ends within a minute comes first, for half of what is asked; then the oldest. */
const foundOldest = `
  ${ending('true')},
  oldest as materialized (
    select w.events_max, w.lease_ms, w.lane_max, r.*
    from wanted w
    cross join lateral (
      select ${runColumns}
      from __schema__.runs r
      where r.subscription = w.subscription and r.state = 'ready' and ${isOwn}
        and (w.suspects or not r.suspect)
        and (r.expires_at is null or r.expires_at > __schema__.clock())
      order by r.first_id
      limit w.runs_max
      for update skip locked
    ) as r
  ),
  found as materialized (
    select 0 as urgency, e.* from ending e
    union all
    select 1, o.* from oldest o where o.id not in (select e.id from ending e)
  )`

/** The same for a pull worker that wants any of some tags: each tag offers its oldest. */
const foundTagged = `
  ${ending('r.tags && $13::text[]')},
  offered as materialized (
    select distinct on (r.id) w.events_max, w.lease_ms, w.lane_max, r.*
    from wanted w
    cross join unnest($13::text[]) as t(tag)
    cross join lateral (
      select o.*
      from __schema__.ready_tags g
      cross join lateral (
        select ${runColumns}
        from __schema__.runs r
        where r.id = g.run_id and r.state = 'ready' and ${isOwn} and (w.suspects or not r.suspect)
          and (r.expires_at is null or r.expires_at > __schema__.clock())
        for update skip locked
      ) as o
      where g.subscription = w.subscription and g.tag = t.tag
      order by g.first_id
      limit w.runs_max
    ) as r
    order by r.id
  ),
  found as materialized (
    select 0 as urgency, e.* from ending e
    union all
    select 1, o.* from offered o where o.id not in (select e.id from ending e)
  )`

/**
 * Of what was found, take what fits. The rest of an unkeyed run stays behind for others; the rest of a lane
 * stays in the run, owned but not granted, since nobody else may have it. A suspect is leased alone.
 */
const takeAndReturn = (columns: string) => `
  sized as materialized (
    select f.*, case when f.suspect then 1 when f.ordering_key is null then cardinality(f.event_ids)
      else least(cardinality(f.event_ids), f.lane_max) end as offered
    from found f
  ),
  counted as materialized (
    select s.*,
      sum(s.offered) over (partition by s.subscription, s.urgency order by s.first_id, s.id) - s.offered as before,
      case s.urgency when 0 then ${half('s.events_max')}
        else s.events_max - least(${half('s.events_max')},
          coalesce(sum(s.offered) filter (where s.urgency = 0) over (partition by s.subscription), 0))
      end as room,
      row_number() over by_age as rank,
      bool_or(s.suspect) over by_age as at_suspect
    from sized s
    window by_age as (partition by s.subscription order by s.urgency, s.first_id, s.id)
  ),
  taken as materialized (
    select c.*, least(c.offered, c.room - c.before)::smallint as granted
    from counted c
    where c.before < c.room
      -- one suspect per call, whatever its subscription: two that are out together are charged together
      and (not c.at_suspect or c.id = (
        select f.id from counted f where f.suspect and f.rank = 1 order by f.urgency, f.first_id, f.id limit 1))
  ),
  left_behind as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, tags, expires_at, max_failures)
    select t.subscription, 'ready', t.event_ids[t.granted + 1:], t.event_ids[t.granted + 1], t.tags,
      t.expires_at, t.max_failures
    from taken t
    where t.ordering_key is null and t.granted < cardinality(t.event_ids)
  ),
  leased as (
    update __schema__.runs r
    set state = 'leased',
      event_ids = case when t.ordering_key is null then t.event_ids[1:t.granted] else t.event_ids end,
      token = $6, worker = $7, granted = t.granted, cancelled = null,
      leased_at = __schema__.clock(), leased_until = __schema__.clock() + t.lease_ms * interval '1 ms',
      lease_ms = t.lease_ms,
      begun = case when $8::boolean then t.event_ids[1:t.granted] end
    from taken t
    where r.id = any(array(select t.id from taken t)) and r.id = t.id
    returning r.id, r.subscription, r.event_ids, r.ordering_key, r.granted, r.attempts, r.failures, r.suspect,
      r.leased_until, r.expires_at
  ),
  given as materialized (
    select l.id, u.event_id, u.place
    from leased l
    cross join lateral unnest(l.event_ids[1:l.granted]) with ordinality as u(event_id, place)
  )
  -- What belongs to the run comes with its first delivery only.
  select l.id, g.place,
    case when g.place = 1 then array[l.subscription, l.attempts, l.failures, (l.ordering_key is not null)::int,
      l.suspect::int, case when l.expires_at is not null
        then floor(least(date_part('epoch', l.expires_at - l.leased_until) * 1000, 2147483647))::int end] end,
    case when g.place = 1 then date_part('epoch', l.leased_until) * 1000 end,
    ${columns},
    case when g.place = 1 and l.ordering_key is distinct from e.ordering_key then l.ordering_key end
  from given g
  join leased l on l.id = g.id
  join __schema__.events e on e.id = g.event_id
  where e.id = any(array(select g.event_id from given g))`

/** The oldest event is always whole. A length is known without reading what is stored apart. */
const boundedColumns = eventColumns.replace(
  'e.payload,',
  `case when sum(octet_length(e.payload)) over (order by e.id) - octet_length(e.payload) < 16777216 then e.payload end,`,
)

const defineLease = (name: string, found: string, columns: string) =>
  defineStatement(name, `with ${wanted('true')}, ${found}, ${takeAndReturn(columns)}`)
export const leaseMany = defineStatement(
  'lease_many',
  `with recursive ${ready}, ${wanted('w.subscription in (select y.subscription from ready y)')}, ${foundOldest},
    ${takeAndReturn(eventColumns)}`,
)
export const leaseOldest = defineLease('lease', foundOldest, eventColumns)
export const leaseTagged = defineLease('lease_tagged', foundTagged, eventColumns)
export const leaseOldestBounded = defineLease('lease_bounded', foundOldest, boundedColumns)
export const leaseTaggedBounded = defineLease('lease_tagged_bounded', foundTagged, boundedColumns)
