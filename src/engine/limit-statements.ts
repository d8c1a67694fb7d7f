import { defineStatement } from '../db/database.ts'

/** Setting a limit makes its row, but of two changes at once one may have deleted it. */
export const addMissingLimitsStatement = defineStatement(
  'account_limits',
  `insert into __schema__.limits (subscription, tokens, refilled_at)
  select s.no, 1, __schema__.clock()
  from __schema__.subscriptions s
  where s.no = any($1::int[]) and __schema__.is_limited(s.max_concurrency, s.rate_per_second, s.ramp)
    and not exists (select 1 from __schema__.limits l where l.subscription = s.no)
  on conflict do nothing`,
)

export const lockLimitsStatement = defineStatement(
  'lock_limits',
  `select l.subscription from __schema__.limits l where l.subscription = any($1::int[]) order by l.subscription for update`,
)

export const readRoomStatement = defineStatement(
  'limit_room',
  `select l.subscription, least(
    case when s.rate_per_second is null then 1000000 else floor(__schema__.tokens_now(l.tokens, l.refilled_at, s.rate_per_second)) end,
    coalesce(least(s.max_concurrency, s.ramp), 1000000) - case when num_nonnulls(s.max_concurrency, s.ramp) = 0 then 0 else (
      select coalesce(sum(r.granted), 0) from __schema__.runs r
      where r.subscription = l.subscription and r.state = 'leased') end)::int
  from __schema__.limits l
  join __schema__.subscriptions s on s.no = l.subscription
  where l.subscription = any($1::int[])`,
)

export const spendStatement = defineStatement(
  'spend_limits',
  `update __schema__.limits l
  set tokens = __schema__.tokens_now(l.tokens, l.refilled_at, s.rate_per_second) - g.spent, refilled_at = __schema__.clock()
  from unnest($1::int[], $2::int[]) as g(subscription, spent), __schema__.subscriptions s
  where l.subscription = g.subscription and s.no = g.subscription and s.rate_per_second is not null`,
)
