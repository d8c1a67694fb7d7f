import { type Connection, type Database, defineStatement } from '../db/database.ts'
import type { LeasedRun } from '../domain/delivery.ts'

/**
 * Waits for this transaction's turn to lease from limited subscriptions, and says how many deliveries each of
 * them may hand out. The count is a statement of its own: it must see what the one before us leased.
 */
export async function takeTurn(
  tx: Connection,
  db: Database,
  subscriptions: readonly number[],
): Promise<Map<number, number>> {
  await tx.run(accountStatement(db), [subscriptions])
  await tx.run(lockStatement(db), [subscriptions])
  const rows = await tx.run<[subscription: number, room: number]>(roomStatement(db), [subscriptions])
  return new Map(rows)
}

/** Takes what was leased out of the buckets of those with a rate. */
export async function spend(tx: Connection, db: Database, runs: readonly LeasedRun[]): Promise<void> {
  const spent = new Map<number, number>()
  for (const run of runs)
    spent.set(run.subscription, (spent.get(run.subscription) ?? 0) + run.deliveries.length)
  await tx.run(spendStatement(db), [[...spent.keys()], [...spent.values()]])
}

/** Whoever sets a limit makes its row; if two did so at once, one of them may have taken it away. */
const accountStatement = defineStatement(
  'account_limits',
  `insert into __schema__.limits (subscription, tokens, refilled_at)
  select s.no, 1, __schema__.clock()
  from __schema__.subscriptions s
  where s.no = any($1::int[]) and __schema__.is_limited(s.max_concurrency, s.rate_per_second, s.ramp)
    and not exists (select 1 from __schema__.limits l where l.subscription = s.no)
  on conflict do nothing`,
)

const lockStatement = defineStatement(
  'lock_limits',
  `select l.subscription from __schema__.limits l where l.subscription = any($1::int[]) order by l.subscription for update`,
)

const tokensNow = '__schema__.tokens_now(l.tokens, l.refilled_at, s.rate_per_second)'

const roomStatement = defineStatement(
  'limit_room',
  `select l.subscription, least(
    case when s.rate_per_second is null then 1000000 else floor(${tokensNow}) end,
    coalesce(least(s.max_concurrency, s.ramp), 1000000) - case when num_nonnulls(s.max_concurrency, s.ramp) = 0 then 0 else (
      select coalesce(sum(r.granted), 0) from __schema__.runs r
      where r.subscription = l.subscription and r.state = 'leased') end)::int
  from __schema__.limits l
  join __schema__.subscriptions s on s.no = l.subscription
  where l.subscription = any($1::int[])`,
)

const spendStatement = defineStatement(
  'spend_limits',
  `update __schema__.limits l
  set tokens = ${tokensNow} - g.spent, refilled_at = __schema__.clock()
  from unnest($1::int[], $2::int[]) as g(subscription, spent), __schema__.subscriptions s
  where l.subscription = g.subscription and s.no = g.subscription and s.rate_per_second is not null`,
)
