import { type Database, defineStatement } from '../../src/db/database.ts'
import type { DeliveryState } from '../../src/domain/status.ts'

/** All that the database holds, read in one statement. */
export interface Snapshot {
  readonly runs: readonly RunRow[]
  /** In the order of their positions. */
  readonly queue: readonly { subscription: number; key: string; eventIds: number[] }[]
  /** Without the notes. */
  readonly inbox: readonly { subscription: number; eventIds: number[] }[]
  readonly notes: number
  /** `subscription/tag/first id/run id`. */
  readonly readyTags: readonly string[]
  readonly letters: readonly LetterRow[]
  readonly deliveries: readonly DeliveryRow[]
  /** `subscription/processed/errors`: as counted along the way, and as recorded. */
  readonly totals: readonly string[]
  readonly recorded: readonly string[]
}

export interface RunRow {
  readonly id: number
  readonly subscription: number
  readonly state: 'ready' | 'leased' | 'deferred' | 'delayed' | 'gated' | 'blocked'
  readonly eventIds: readonly number[]
  readonly firstId: number
  readonly key: string | null
  readonly gate: string | null
  readonly tags: readonly string[] | null
  readonly expires: boolean
  readonly attempts: number
  readonly failures: number
  readonly suspect: boolean
  readonly token: number | null
  readonly granted: number | null
  readonly blockedBy: number | null
}

export interface LetterRow {
  readonly id: string
  readonly eventId: number
  readonly subscription: number
  readonly kind: 'buried' | 'expired'
  readonly attempts: number
  readonly failures: number
  readonly redriven: boolean
}

export interface DeliveryRow {
  readonly eventId: number
  readonly subscription: number
  readonly state: DeliveryState
  readonly attempts: number
  readonly failures: number
  readonly audits: number
}

export async function readSnapshot(db: Database): Promise<Snapshot> {
  const [row] = await db.run<[snapshot: Snapshot]>(snapshotStatement(db), [])
  return (row as [Snapshot])[0]
}

/** The deliveries of a lane in their order: those of the run that is out, then those that queue. */
export function laneOrder(snapshot: Snapshot, subscription: number, key: string): number[] {
  const runs = runsOut(snapshot, subscription, key)
  const chunks = snapshot.queue.filter((chunk) => chunk.subscription === subscription && chunk.key === key)
  return [...runs, ...chunks].flatMap((one) => one.eventIds)
}

/** The runs that hold a lane: there must be one at most. */
export function runsOut(snapshot: Snapshot, subscription: number, key: string): RunRow[] {
  return snapshot.runs.filter(
    (run) => run.subscription === subscription && run.key === key && run.state !== 'delayed',
  )
}

const snapshotStatement = defineStatement(
  'simulation_snapshot',
  `select json_build_object(
    'runs', (
      select coalesce(json_agg(json_build_object(
        'id', r.id, 'subscription', r.subscription, 'state', r.state, 'eventIds', r.event_ids, 'firstId', r.first_id,
        'key', r.ordering_key, 'gate', r.concurrency_key, 'tags', r.tags, 'expires', r.expires_at is not null,
        'attempts', r.attempts, 'failures', r.failures, 'suspect', r.suspect, 'token', r.token, 'granted', r.granted,
        'blockedBy', r.blocked_by) order by r.position, r.id), '[]')
      from __schema__.runs r),
    'queue', (
      select coalesce(json_agg(json_build_object('subscription', q.subscription, 'key', q.ordering_key,
        'eventIds', q.event_ids) order by q.position), '[]')
      from __schema__.lane_queue q),
    'inbox', (
      select coalesce(json_agg(json_build_object('subscription', i.subscription, 'eventIds', i.event_ids)), '[]')
      from __schema__.inbox i where i.event_ids is not null),
    'notes', (select count(*) from __schema__.inbox i where i.event_ids is null),
    'readyTags', (
      select coalesce(json_agg(concat_ws('/', t.subscription, t.tag, t.first_id, t.run_id)), '[]')
      from __schema__.ready_tags t),
    'letters', (
      select coalesce(json_agg(json_build_object('id', l.id, 'eventId', l.event_id, 'subscription', l.subscription,
        'kind', l.kind, 'attempts', l.attempts, 'failures', l.failures, 'redriven', l.redriven_at is not null)), '[]')
      from __schema__.dead_letters l),
    'deliveries', (
      select coalesce(json_agg(json_build_object('eventId', d.event_id, 'subscription', d.subscription,
        'state', d.state, 'attempts', d.attempts, 'failures', d.failures,
        'audits', (select count(*) from __schema__.audit a
          where a.event_id = d.event_id and a.subscription = d.subscription))), '[]')
      from __schema__.delivery_states(array(select e.id from __schema__.events e)) as d),
    'totals', (
      select coalesce(json_agg(concat_ws('/', t.subscription, t.processed, t.errors) order by t.subscription), '[]')
      from __schema__.queue_totals t where t.processed + t.errors > 0),
    'recorded', (
      select coalesce(json_agg(concat_ws('/', a.subscription, a.processed, a.errors) order by a.subscription), '[]')
      from (
        select a.subscription, count(*) filter (where a.settlement = 'completed') as processed,
          count(*) filter (where a.settlement <> 'completed') as errors
        from __schema__.audit a
        where a.settlement in ('completed', 'retried', 'lease_expired', 'buried') and a.token is not null
        group by a.subscription
      ) as a)
  )`,
)
