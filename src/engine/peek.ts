import { type Database, defineStatement } from '../db/database.ts'
import { isReplayDue } from '../deliveries/step-replay.ts'
import { isRestOver } from './expire.ts'
import { wasClockSetBack } from './shorten-waits.ts'

/** What there is to do. Whatever is looked for again and again belongs here: an idle process asks nothing else. */
export interface Peek {
  /** Something has arrived, or its time has come: it is to be admitted. */
  readonly arrivals: boolean
  /** Of the subscriptions that were asked about, those that have something to lease. */
  readonly ready: readonly number[]
  /** A lease has ended, or a delivery has outlived its time, or the clock was set back. */
  readonly overdue: boolean
  /** A replay can go on. */
  readonly replays: boolean
  /** Something that queues have done is not added up yet. */
  readonly tallied: boolean
  /** A queue drains. */
  readonly draining: boolean
}

/**
 * Whether there is anything to do: one cheap look, so that an idle process asks little. `memoryTokens` are those by which
 * the caller has queues in its memory: of a queue that another process has there, the caller can lease nothing.
 */
export async function peek(
  db: Database,
  subscriptions: readonly number[],
  memoryTokens: readonly number[] = [],
): Promise<Peek> {
  const [row] = await db.run<PeekRow>(peekStatement(db), [subscriptions, memoryTokens])
  const [arrivals, ready, overdue, replays, tallied, draining] = row as PeekRow
  return { arrivals, ready, overdue, replays, tallied, draining }
}

/** Something to lease or to admit for these subscriptions. */
export function hasWork({ arrivals, ready }: Peek, subscriptions: readonly number[]): boolean {
  return arrivals || ready.some((no) => subscriptions.includes(no))
}

const peekStatement = defineStatement(
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
      or ${wasClockSetBack}
      or exists (select 1 from __schema__.runs r
        where r.expires_at is not null and r.expires_at <= __schema__.clock() and r.state <> 'leased')
      or exists (select 1 from __schema__.runs r where ${isRestOver})
      or exists (select 1 from __schema__.lane_queue q
        where q.expires_at is not null and q.expires_at <= __schema__.clock()),
    exists (select 1 from __schema__.replays r where r.state = 'running' and ${isReplayDue}),
    exists (select 1 from __schema__.queue_tallies),
    exists (select 1 from __schema__.subscriptions s where s.status = 'draining' and s.drained_at is null)`,
)

type PeekRow = [
  arrivals: boolean,
  ready: number[],
  overdue: boolean,
  replays: boolean,
  tallied: boolean,
  draining: boolean,
]
