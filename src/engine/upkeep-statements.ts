import { defineStatement } from '../db/database.ts'

export const peekStatement = defineStatement(
  'peek',
  `select
    exists (select 1 from __schema__.inbox)
      or exists (
        select 1
        from __schema__.holding_queues h
        join __schema__.subscriptions s on s.no = h.subscription
        where s.drain_fence is null or s.status = 'deleted' or __schema__.has_enterable(s.no, s.drain_fence))
      or exists (
        select 1 from __schema__.runs r
        where r.state in ('deferred', 'delayed') and r.due_at <= __schema__.clock()),
    array(
      select s.no
      from __schema__.subscriptions s
      where s.no = any($1::int[]) and s.status in ('active', 'draining')
        and exists (
          select 1 from __schema__.runs r
          where r.subscription = s.no and r.state = 'ready'
            and r.first_id <= coalesce(s.drain_fence, 9223372036854775807))
        and not exists (
          select from __schema__.memory_queues m
          where m.subscription = s.no and (m.token = any($2::bigint[])) is not true)),
    exists (select 1 from __schema__.runs r where r.state = 'leased' and r.leased_until < __schema__.clock())
      or exists (select 1 from __schema__.workers w where w.seen_at > __schema__.clock() + interval '1 s')
      or exists (select 1 from __schema__.runs r
        where r.expires_at is not null and r.expires_at <= __schema__.clock() and r.state <> 'leased')
      or exists (select 1 from __schema__.runs r where __schema__.has_expired_rest(r))
      or exists (select 1 from __schema__.lane_queue q
        where q.expires_at is not null and q.expires_at <= __schema__.clock()),
    exists (select 1 from __schema__.replays r where r.state = 'running' and __schema__.is_replay_due(r.due_at)),
    exists (select 1 from __schema__.queue_tallies),
    exists (select 1 from __schema__.subscriptions s where s.status = 'draining' and s.drained_at is null)`,
)

/** One statement sees one snapshot, so it finds no lane that is just moving. The rows `lanes` and `gates` say where a full step ended. */
export const wakeSleepersStatement = defineStatement(
  'wake_sleepers',
  `with recursive lane as (
    (select q.subscription, q.ordering_key, 1 as place
     from __schema__.lane_queue q
     where (q.subscription, q.ordering_key) > ($1::int, $2::text)
     order by q.subscription, q.ordering_key
     limit 1)
    union all
    select n.subscription, n.ordering_key, l.place + 1
    from lane l
    cross join lateral (
      select q.subscription, q.ordering_key
      from __schema__.lane_queue q
      where (q.subscription, q.ordering_key) > (l.subscription, l.ordering_key)
      order by q.subscription, q.ordering_key
      limit 1
    ) as n
    where l.place < $5::int
  ),
  gate as (
    (select r.subscription, r.concurrency_key, 1 as place
     from __schema__.runs r
     where r.state = 'gated' and (r.subscription, r.concurrency_key) > ($3::int, $4::text)
     order by r.subscription, r.concurrency_key
     limit 1)
    union all
    select n.subscription, n.concurrency_key, g.place + 1
    from gate g
    cross join lateral (
      select r.subscription, r.concurrency_key
      from __schema__.runs r
      where r.state = 'gated' and (r.subscription, r.concurrency_key) > (g.subscription, g.concurrency_key)
      order by r.subscription, r.concurrency_key
      limit 1
    ) as n
    where g.place < $5
  ),
  idle_lane as materialized (
    select l.subscription, l.ordering_key
    from lane l
    where not exists (
      select 1 from __schema__.runs r
      where r.subscription = l.subscription and r.ordering_key = l.ordering_key and r.state not in ('delayed', 'held'))
  ),
  roomy_gate as materialized (
    select g.subscription, g.concurrency_key
    from gate g
    join __schema__.subscriptions s on s.no = g.subscription
    where coalesce(s.key_concurrency, 1000000) > (
      select count(*) from __schema__.runs r
      where r.subscription = g.subscription and r.concurrency_key = g.concurrency_key and r.state in ('ready', 'leased'))
  ),
  forgotten_queue as materialized (
    select s.no as subscription
    from __schema__.subscriptions s
    where exists (select 1 from __schema__.runs r where r.subscription = s.no and r.state = 'held')
      and not exists (select 1 from __schema__.holding_queues h where h.subscription = s.no)
  ),
  note as materialized (
    select i.subscription, u.ordering_key, u.concurrency_key
    from __schema__.inbox i
    cross join lateral unnest(i.ordering_keys, i.concurrency_keys) as u(ordering_key, concurrency_key)
    where exists (select 1 from idle_lane) or exists (select 1 from roomy_gate)
  ),
  sleeper as materialized (
    select 'lane' as kind, l.subscription, l.ordering_key as key
    from idle_lane l
    where (l.subscription, l.ordering_key) not in (
      select n.subscription, n.ordering_key from note n where n.ordering_key is not null)
    union all
    select 'gate', g.subscription, g.concurrency_key
    from roomy_gate g
    where (g.subscription, g.concurrency_key) not in (
      select n.subscription, n.concurrency_key from note n where n.concurrency_key is not null)
    union all
    select 'queue', f.subscription, null from forgotten_queue f
  ),
  known as materialized (
    select s.kind, s.subscription, s.key
    from sleeper s
    where (select count(*) from (select 1 from __schema__.inbox limit $6::int + 1) as i) <= $6
  ),
  noted as (
    insert into __schema__.inbox (subscription, ordering_keys, concurrency_keys)
    select k.subscription, array_agg(case when k.kind = 'lane' then k.key end),
      array_agg(case when k.kind = 'gate' then k.key end)
    from known k
    where k.kind <> 'queue'
    group by k.subscription
  ),
  holding as (
    insert into __schema__.holding_queues (subscription)
    select k.subscription from known k where k.kind = 'queue'
    on conflict do nothing
  )
  select k.kind, k.subscription, s.name, k.key from known k join __schema__.subscriptions s on s.no = k.subscription
  union all
  (select 'lanes', l.subscription, null, l.ordering_key from lane l where l.place = $5)
  union all
  (select 'gates', g.subscription, null, g.concurrency_key from gate g where g.place = $5)`,
)

export const followPromotionStatement = defineStatement(
  'follow_promotion',
  'select __schema__.follow_promotion()',
)

export const claimPromotionStatement = defineStatement(
  'tell_promotion',
  `update __schema__.told_timeline p
  set timeline = (select t.last_value from __schema__.id_timeline t), told_at = __schema__.clock()
  where p.timeline <> (select t.last_value from __schema__.id_timeline t)
  returning p.timeline`,
)

/** The type is not read from the snapshot: its payload may have characters that no text in PostgreSQL can hold. */
export const findUnroutedStatement = defineStatement(
  'unrouted_letters',
  `select l.event_id, e.type, l.reason
  from __schema__.dead_letters l
  left join __schema__.events e on e.id = l.event_id
  where l.event_id = any($1::bigint[]) and l.subscription is null
  order by l.event_id`,
)
