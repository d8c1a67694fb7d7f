import { type Database, defineStatement } from '../../db/database.ts'

/** What this process has seen of an endpoint since it last said so. */
export interface EndpointReport {
  readonly subscription: number
  /** How often it could be reached. */
  readonly reached: number
  /** How often in a row it could not be, since it last could. */
  readonly unreachable: number
  /** How many of these were probes. */
  readonly probes: number
  /** It said that it is gone for good. */
  readonly isGone: boolean
  readonly error: string | null
  /** How long ago the first of it happened. */
  readonly ageMs: number
}

export interface EndpointChange {
  readonly subscription: number
  readonly name: string
  readonly before: string
  readonly status: 'active' | 'draining' | 'suspended' | 'paused'
  readonly error: string | null
}

/** Failures in a row to reach an endpoint at all, after which nothing more is sent. */
const unreachableMax = 3
/** After so long nobody expects it to come back by itself. */
const suspendedHoursMax = 72
/** Between two probes, give or take a tenth. */
const probeSecondsMax = 60
/** SQL: how long whoever took a probe has for it. */
const probeLeaseMs = (row: string) => `(2 * coalesce(${row}.timeout_ms, 10000) + 10000)`
/** With so many under way it has recovered, unless it never gets as many. */
const rampMax = 50

/** Tells the one breaker of each endpoint what happened; returns whose status that changed. */
export async function reportEndpoints(
  db: Database,
  reports: readonly EndpointReport[],
): Promise<EndpointChange[]> {
  const rows = await db.once<ChangeRow>(
    reportStatement(db),
    [
      reports.map((one) => one.subscription),
      reports.map((one) => one.reached),
      reports.map((one) => one.unreachable),
      reports.map((one) => one.probes),
      reports.map((one) => one.isGone),
      reports.map((one) => one.error),
      reports.map((one) => Math.ceil(one.ageMs)),
    ],
    { durable: false },
  )
  return rows.map(([subscription, name, before, status, error]) => ({
    ...{ subscription, name, before, status, error },
  }))
}

/** Suspended endpoints that this process is to try now, and nobody else until it has said how that went. */
export async function takeProbes(db: Database, probesMax: number): Promise<number[]> {
  const rows = await db.once<[subscription: number]>(takeStatement(db), [probesMax], { durable: false })
  return rows.map(([subscription]) => subscription)
}

/** There was nothing to try these with: somebody looks again in a second. */
export async function returnProbes(db: Database, subscriptions: readonly number[]): Promise<void> {
  if (subscriptions.length > 0) await db.once(returnStatement(db), [subscriptions], { durable: false })
}

/**
 * Most of what is reported changes nothing, and locks nothing. What is paused or deleted stays so. An attempt that was
 * under way when the endpoint was suspended says nothing new by failing; if it succeeds, the endpoint is back.
 */
const reportStatement = defineStatement(
  'report_endpoints',
  `with given as materialized (
    select g.*
    from unnest($1::int[], $2::int[], $3::int[], $4::int[], $5::boolean[], $6::text[], $7::int[])
      as g(subscription, reached, unreachable, probes, is_gone, error, age_ms)
  ),
  state as materialized (
    select e.subscription, s.name, s.status, s.ramp, s.max_concurrency, s.rate_per_second, e.suspended_at, e.resumes_as,
      e.probes as probes_before, g.reached, g.unreachable, g.probes, g.is_gone, g.error,
      -- one that was suspended in the future was so before the clock was set back
      e.suspended_at between __schema__.clock() - g.age_ms * interval '1 ms' and __schema__.clock() as is_outdated,
      g.unreachable + case when g.reached > 0 then 0 else e.unreachable end as in_a_row
    from given g
    join __schema__.endpoints e on e.subscription = g.subscription
    join __schema__.subscriptions s on s.no = g.subscription
    where e.subscription = any($1) and s.no = any($1)
      and (g.unreachable > 0 or g.is_gone or e.unreachable > 0 or s.ramp is not null or s.status = 'suspended')
    order by e.subscription
    -- the subscription first, as whoever changes one does
    for update of s, e
  ),
  decided as materialized (
    select x.*,
      case
        when x.status not in ('active', 'draining', 'suspended') then x.status
        when x.is_gone then 'paused'
        when x.status = 'suspended' and x.reached > 0 and x.unreachable < ${unreachableMax} and not x.is_outdated
          then coalesce(x.resumes_as, 'active')
        when x.status = 'suspended' and x.probes > 0
          and x.suspended_at <= __schema__.clock() - interval '${suspendedHoursMax} h' then 'paused'
        when x.status in ('active', 'draining') and x.in_a_row >= ${unreachableMax} then 'suspended'
        else x.status
      end as next_status
    from state x
  ),
  paced as materialized (
    select d.*,
      case
        when d.next_status not in ('active', 'draining') then null
        when d.status = 'suspended' then 1
        when d.ramp + d.reached <= coalesce(d.max_concurrency, ${rampMax}) then d.ramp + d.reached
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
        else __schema__.clock() + (1 + 0.1 * random()) * interval '1 s' * least(${probeSecondsMax}, 5 * 2 ^
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
 * If whoever took it vanishes, somebody else tries when the attempt would have been over. It is tried with the oldest, so
 * those that could not be delivered a moment ago need not wait any longer; no schedule is broken, for nothing was counted.
 */
const takeStatement = defineStatement(
  'take_probes',
  `with due as materialized (
    select e.subscription, s.timeout_ms
    from __schema__.endpoints e
    join __schema__.subscriptions s on s.no = e.subscription
    where s.status = 'suspended'
      -- a probe is never further away, unless the clock was set back
      and e.probe_at not between __schema__.clock() and __schema__.clock() + (${probeSecondsMax} * 1100 + ${probeLeaseMs('s')}) * interval '1 ms'
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
  set probe_at = __schema__.clock() + ${probeLeaseMs('d')} * interval '1 ms'
  from due d
  where e.subscription = d.subscription
  returning e.subscription`,
)

const returnStatement = defineStatement(
  'return_probes',
  `update __schema__.endpoints e
  set probe_at = __schema__.clock() + interval '1 s'
  where e.subscription = any($1::int[]) and e.probe_at is not null`,
)

type ChangeRow = [
  subscription: number,
  name: string,
  before: string,
  status: EndpointChange['status'],
  error: string | null,
]
