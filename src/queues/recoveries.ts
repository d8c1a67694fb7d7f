import { checkPaging, type Paging, pagingOptions, uuidForm } from '../core/paging.ts'
import { readAtOnce } from '../core/reader.ts'
import { type Database, defineStatement } from '../db/database.ts'
import { checkOptions } from '../domain/known-names.ts'

/** What a process that started found unfinished in a queue. */
export interface Recovery {
  readonly id: string
  readonly queue: string
  /** The process. */
  readonly worker: string
  readonly checkpointId: number | null
  readonly eventsRecovered: number
  readonly startedAt: Date
  readonly completedAt: Date | null
  readonly status: 'running' | 'completed' | 'failed'
}

/** Records, for each of these queues that has something unfinished which nobody is at, that a start has found it. */
export async function recordRecoveries(
  db: Database,
  { queues, worker }: { readonly queues: readonly number[]; readonly worker: string },
): Promise<Recovery[]> {
  const rows = await db.once<RecoveryRow>(recordStatement(db), [queues, worker, depthMax], {
    indexPlans: true,
  })
  return rows.map(fromRow)
}

const depthMax = 10_000

/**
 * What somebody else is at is not recovered: whoever was heard of lately, and is not the one who starts. Nothing has to be
 * loaded, so it is complete as soon as it is known.
 */
const recordStatement = defineStatement(
  'record_recoveries',
  `insert into __schema__.queue_recoveries as r (id, queue_id, worker, checkpoint_id, events_recovered, recovery_start_time,
    recovery_complete_time, status)
  select __schema__.uuid_v7(), s.name, $2, t.last_id::text, f.unfinished, __schema__.clock(), __schema__.clock(), 'completed'
  from __schema__.subscriptions s
  join __schema__.queue_totals t on t.subscription = s.no
  cross join lateral (
    select __schema__.queue_depth(s.no, $3) - (
      select coalesce(sum(cardinality(l.event_ids)), 0)
      from (
        select o.event_ids, o.worker, o.leased_until from __schema__.runs o
        where o.subscription = s.no and o.state = 'leased'
        limit $3
      ) as l
      join __schema__.workers w on w.no = l.worker
      where l.leased_until > __schema__.clock() and w.seen_at > __schema__.clock() - interval '15 s' and w.name <> $2
    ) as unfinished
  ) as f
  where s.no = any($1::int[]) and s.status <> 'deleted' and s.storage = 'database' and f.unfinished > 0
  returning r.id, r.queue_id, r.worker, r.checkpoint_id, r.events_recovered, r.recovery_start_time, r.recovery_complete_time,
    r.status`,
)

export interface RecoveryPage {
  readonly recoveries: readonly Recovery[]
  readonly nextCursor: string | null
}

/** The oldest first, unless asked otherwise. */
export async function listRecoveries(
  db: Database,
  queue: string,
  paging: Paging = {},
): Promise<RecoveryPage> {
  checkOptions(paging, pagingOptions, 'a list of recoveries')
  const { limit, offset, after, order, cursorAt } = checkPaging('recoveries', { ...paging, queue }, uuidForm)
  return readAtOnce(db, async (reader) => {
    const rows = await reader.run<RecoveryRow>(listStatements[order](db), [queue, after, limit + 1, offset])
    const recoveries = rows.slice(0, limit).map(fromRow)
    const last = recoveries.at(-1)
    return {
      recoveries,
      nextCursor: rows.length > limit && last !== undefined ? cursorAt(last.id) : null,
    }
  })
}

/** Of this subscription, and not of one before it with the same name. */
const list = (name: string, comparison: string, order: string) =>
  defineStatement(
    name,
    `select r.id, r.queue_id, r.worker, r.checkpoint_id, r.events_recovered, r.recovery_start_time, r.recovery_complete_time,
    r.status
  from __schema__.queue_recoveries r
  join __schema__.event_queue_state q on q.id = r.queue_id
  where r.queue_id = $1 and r.recovery_start_time >= q.created_at and ($2::uuid is null or r.id ${comparison} $2::uuid)
  order by r.id ${order}
  limit $3 offset $4`,
  )
const listStatements = {
  asc: list('list_recoveries', '>', 'asc'),
  desc: list('list_recoveries_desc', '<', 'desc'),
}

type RecoveryRow = [
  id: string,
  queue: string,
  worker: string,
  checkpointId: string | null,
  eventsRecovered: number,
  startedAt: Date,
  completedAt: Date | null,
  status: Recovery['status'],
]

function fromRow(row: RecoveryRow): Recovery {
  const [id, queue, worker, checkpointId, eventsRecovered, startedAt, completedAt, status] = row
  return {
    ...{ id, queue, worker, eventsRecovered, startedAt, completedAt, status },
    checkpointId: checkpointId === null ? null : Number(checkpointId),
  }
}
