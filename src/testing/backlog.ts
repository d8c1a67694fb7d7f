import { type Database, defineStatement } from '../db/database.ts'

export interface Backlog {
  /** Deliveries that could be leased or admitted now. */
  readonly ready: number
  /** Also of a paused queue: what has begun there ends. */
  readonly leased: number
  /** Deliveries that wait for a time: retries, snoozes, delays. */
  readonly later: number
  /** Deliveries that wait for their lane, their gate or an operator. */
  readonly behind: number
}

/** Counts what waits for handlers and webhooks, by looking at all of it: for tests and operators, not for hot paths. */
export async function countBacklog(db: Database): Promise<Backlog> {
  const { rows } = await db.query<Backlog>(backlogStatement(db).text)
  return rows[0] as Backlog
}

const backlogStatement = defineStatement(
  'backlog',
  `with served as materialized (
    select s.no
    from __schema__.subscriptions s
    where s.via in ('handler', 'webhook') and s.status in ('active', 'draining')
  ),
  run as (
    select r.state, r.due_at <= __schema__.clock() as due, cardinality(r.event_ids) as size
    from __schema__.runs r
    where r.subscription in (select s.no from served s)
      or (r.state = 'leased' and r.subscription in (
        select s.no from __schema__.subscriptions s where s.via = 'handler' and s.status = 'paused'))
  )
  select
    (coalesce(sum(r.size) filter (where r.state = 'ready' or (r.state in ('deferred', 'delayed') and r.due)), 0)
      + (select coalesce(sum(coalesce(cardinality(i.event_ids), 1)), 0) from __schema__.inbox i
         where i.subscription in (select s.no from served s)))::int as ready,
    coalesce(sum(r.size) filter (where r.state = 'leased'), 0)::int as leased,
    coalesce(sum(r.size) filter (where r.state in ('deferred', 'delayed') and not r.due), 0)::int as later,
    (coalesce(sum(r.size) filter (where r.state in ('held', 'gated', 'blocked')), 0)
      + (select coalesce(sum(cardinality(q.event_ids)), 0) from __schema__.lane_queue q
         where q.subscription in (select s.no from served s)))::int as behind
  from run r`,
)
