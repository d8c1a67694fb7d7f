import { type Database, defineStatement } from '../db/database.ts'

export interface IsolateRequest {
  readonly runId: number
  readonly token: number
  readonly eventId: number
}

export interface IsolatedRun {
  readonly runId: number
  /** The id of the transaction that isolated it: only a snapshot that sees this one sees the run. */
  readonly mark: string
}

/**
 * Takes one delivery out of a leased run, into a leased run of its own. A handler that settles in its own
 * transaction then locks nothing that its neighbours or the heartbeat need. Returns the run to settle with,
 * or undefined if the lease is lost.
 */
export async function isolate(db: Database, request: IsolateRequest): Promise<IsolatedRun | undefined> {
  const { runId, token, eventId } = request
  const values = [runId, token, eventId]
  const options = { durable: false, indexPlans: true }
  const [row] = await db.once<[runId: number, mark: string]>(isolateStatement(db), values, options)
  return row === undefined ? undefined : { runId: row[0], mark: row[1] }
}

const isolateStatement = defineStatement(
  'isolate',
  `with held as materialized (
    select r.id, r.subscription, r.event_ids, r.ordering_key, r.concurrency_key, r.tags, r.expires_at, r.max_failures,
      r.suspect, r.token, r.worker, r.leased_at, r.leased_until, r.lease_ms, r.cancelled
    from __schema__.runs r
    where r.id = $1 and r.token = $2 and r.state = 'leased' and $3 = any(r.event_ids[1:r.granted])
    for update
  ),
  alone as (
    select h.id from held h where h.ordering_key is not null or cardinality(h.event_ids) = 1
  ),
  shrunk as (
    update __schema__.runs r
    set event_ids = array_remove(r.event_ids, $3), granted = r.granted - 1, begun = array_remove(r.begun, $3)
    from held h
    where r.id = h.id and h.id not in (select a.id from alone a)
  ),
  single as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, concurrency_key, tags, expires_at,
      max_failures, suspect, token, worker, leased_at, leased_until, lease_ms, granted, begun, cancelled)
    select h.subscription, 'leased', array[$3], $3, h.concurrency_key, h.tags, h.expires_at, h.max_failures,
      h.suspect, h.token, h.worker, h.leased_at, h.leased_until, h.lease_ms, 1, array[$3],
      case when $3 = any(h.cancelled) then array[$3] end
    from held h
    where h.id not in (select a.id from alone a)
    returning id
  )
  select i.id, pg_current_xact_id()::text
  from (select a.id from alone a union all select s.id from single s) as i`,
)
