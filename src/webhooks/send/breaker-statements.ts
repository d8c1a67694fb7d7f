import { defineStatement } from '../../db/database.ts'

/**
 * Tells the breaker of each endpoint what a process has seen of it, and returns the subscriptions whose status changed.
 *
 * - Three failures in a row to reach an endpoint suspend its subscription.
 * - The first answer ends the suspension. `ramp` then limits the requests under way: 1 at first, one more with each answer, until
 *   it reaches the subscription's own limit, or 50.
 * - A probe that fails plans the next one: after 5, 10, 20, 40 and then every 60 seconds, and up to a tenth later.
 * - After 72 hours, or when the endpoint says that it is gone, the subscription is paused until somebody resumes it.
 *
 * Most reports change nothing and lock nothing. A paused or deleted subscription stays as it is. A failure of an attempt that
 * was under way when its endpoint was suspended says nothing new; a success means that the endpoint is back.
 */
export const reportEndpoints = defineStatement(
  'report_endpoints',
  `with given as materialized (
    select g.*
    from unnest($1::int[], $2::int[], $3::int[], $4::int[], $5::boolean[], $6::text[], $7::int[])
      as g(subscription, reached, unreachable, probes, is_gone, error, age_ms)
  ),
  state as materialized (
    select e.subscription, s.name, s.status, s.ramp, s.max_concurrency, s.rate_per_second, e.suspended_at, e.resumes_as,
      e.probes as probes_before, g.reached, g.unreachable, g.probes, g.is_gone, g.error,
      -- a suspension in the future began before the clock was set back
      e.suspended_at between __schema__.clock() - g.age_ms * interval '1 ms' and __schema__.clock() as is_outdated,
      g.unreachable + case when g.reached > 0 then 0 else e.unreachable end as in_a_row
    from given g
    join __schema__.endpoints e on e.subscription = g.subscription
    join __schema__.subscriptions s on s.no = g.subscription
    where e.subscription = any($1) and s.no = any($1)
      and (g.unreachable > 0 or g.is_gone or e.unreachable > 0 or s.ramp is not null or s.status = 'suspended')
    order by e.subscription
    -- the subscription first, as every change of a subscription does
    for update of s, e
  ),
  decided as materialized (
    select x.*,
      case
        when x.status not in ('active', 'draining', 'suspended') then x.status
        when x.is_gone then 'paused'
        when x.status = 'suspended' and x.reached > 0 and x.unreachable < 3 and not x.is_outdated
          then coalesce(x.resumes_as, 'active')
        when x.status = 'suspended' and x.probes > 0
          and x.suspended_at <= __schema__.clock() - interval '72 h' then 'paused'
        when x.status in ('active', 'draining') and x.in_a_row >= 3 then 'suspended'
        else x.status
      end as next_status
    from state x
  ),
  paced as materialized (
    select d.*,
      case
        when d.next_status not in ('active', 'draining') then null
        when d.status = 'suspended' then 1
        when d.ramp + d.reached <= coalesce(d.max_concurrency, 50) then d.ramp + d.reached
      end as next_ramp
    from decided d
  ),
  changed as (
    update __schema__.subscriptions s
    set status = p.next_status, ramp = p.next_ramp
    from paced p
    where s.no = p.subscription and s.no = any($1)
      and (s.status <> p.next_status or s.ramp is distinct from p.next_ramp)
  ),
  kept as (
    update __schema__.endpoints e
    set unreachable = p.in_a_row,
      suspended_at = case when p.next_status = 'suspended' then coalesce(p.suspended_at, __schema__.clock()) end,
      resumes_as = case when p.next_status = 'suspended' then coalesce(p.resumes_as, p.status) end,
      probes = case when p.status = 'suspended' and p.next_status = 'suspended' then p.probes_before + p.probes else 0 end,
      probe_at = case
        when p.next_status <> 'suspended' then null
        when p.status = 'suspended' and p.probes = 0 then e.probe_at
        else __schema__.clock() + (1 + 0.1 * random()) * interval '1 s' * least(60, 5 * 2 ^
          case when p.status = 'suspended' then least(p.probes_before + p.probes, 10) else 0 end)
      end,
      last_error = coalesce(p.error, e.last_error),
      last_error_at = case when p.error is null then e.last_error_at else __schema__.clock() end
    from paced p
    where e.subscription = p.subscription and e.subscription = any($1)
  ),
  limited as (
    insert into __schema__.limits (subscription, tokens, refilled_at)
    select p.subscription, 1, __schema__.clock() from paced p where p.next_ramp is not null
    on conflict do nothing
  ),
  unlimited as (
    delete from __schema__.limits l
    using paced p
    where l.subscription = p.subscription and l.subscription = any($1)
      and p.ramp is not null and not __schema__.is_limited(p.max_concurrency, p.rate_per_second, p.next_ramp)
  )
  select p.subscription, p.name, p.status, p.next_status, p.error
  from paced p
  where p.status <> p.next_status`,
)

/**
 * Takes at most $1 probes that are due: no other process tries these endpoints until this one has reported. If it vanishes,
 * another process may try when the attempt would have been over, with some slack: twice its timeout and ten seconds. A probe
 * uses the oldest delivery, so deliveries whose first attempt could not reach the endpoint become due at once; nothing was
 * counted against them, so no retry schedule is broken.
 */
export const takeProbes = defineStatement(
  'take_probes',
  `with due as materialized (
    select e.subscription, s.timeout_ms
    from __schema__.endpoints e
    join __schema__.subscriptions s on s.no = e.subscription
    where s.status = 'suspended'
      -- a probe is never further away, unless the clock was set back
      and e.probe_at not between __schema__.clock()
        and __schema__.clock() + (60 * 1100 + (2 * coalesce(s.timeout_ms, 10000) + 10000)) * interval '1 ms'
    order by e.probe_at
    limit $1
    for update of e skip locked
  ),
  hastened as (
    update __schema__.runs r
    set due_at = __schema__.clock()
    from due d
    where r.subscription = d.subscription and r.state = 'deferred' and r.failures = 0
      and r.due_at > __schema__.clock() and r.due_at <= __schema__.clock() + interval '6 s'
  )
  update __schema__.endpoints e
  set probe_at = __schema__.clock() + (2 * coalesce(d.timeout_ms, 10000) + 10000) * interval '1 ms'
  from due d
  where e.subscription = d.subscription
  returning e.subscription`,
)

/** There was no delivery to try these endpoints with: try again in a second. */
export const returnProbes = defineStatement(
  'return_probes',
  `update __schema__.endpoints e
  set probe_at = __schema__.clock() + interval '1 s'
  where e.subscription = any($1::int[]) and e.probe_at is not null`,
)
