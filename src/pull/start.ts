import { type Database, defineStatement } from '../db/database.ts'

/** Notes the start of an attempt. */

export interface StartRequest {
  readonly runId: number
  readonly token: number
  readonly eventId: number
}

export interface Started {
  /** The id of the log entry. */
  readonly id: number
  readonly workerId: string | null
  readonly startedAt: Date
}

/** Notes that a worker has begun an attempt. A second call finds the first note. Undefined: the lease is lost. */
export async function start(db: Database, request: StartRequest): Promise<Started | undefined> {
  const { runId, token, eventId } = request
  return db.transaction(async (tx) => {
    const [held] = await tx.run<[subscription: number]>(startStatement(db), [runId, token, eventId])
    if (held === undefined) return undefined
    // A second statement, since the first does not see a start that another call has noted meanwhile.
    const { rows } = await tx.query<Started>(readStatement(db).text, [eventId, held[0], token])
    return rows[0] as Started
  })
}

const startStatement = defineStatement(
  'start',
  `with held as materialized (
    select r.id, r.subscription, r.token, r.worker, r.begun
    from __schema__.runs r
    where r.id = $1 and r.token = $2 and r.state = 'leased' and $3 = any(r.event_ids[1:r.granted])
    for update
  ),
  begun as (
    update __schema__.runs r
    set begun = array_append(r.begun, $3)
    from held h
    where r.id = h.id and (h.begun is null or $3 <> all(h.begun))
  ),
  noted as (
    insert into __schema__.starts (event_id, subscription, token, worker, started_at)
    select $3, h.subscription, h.token, h.worker, __schema__.clock()
    from held h
    on conflict do nothing
  )
  select h.subscription from held h`,
)

const readStatement = defineStatement(
  'read_start',
  `select __schema__.log_id(t.started_at, t.event_id, t.subscription, 1) as id, w.name as "workerId",
    t.started_at as "startedAt"
  from __schema__.starts t
  left join __schema__.workers w on w.no = t.worker
  where t.event_id = $1 and t.subscription = $2 and t.token = $3`,
)
