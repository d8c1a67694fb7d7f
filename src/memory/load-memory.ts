import { type Database, defineStatement } from '../db/database.ts'
import { eventFromRow } from '../engine/event-row.ts'
import type { MemoryState } from './persist-memory.ts'

export interface LoadRequest {
  readonly subscription: number
  /** Only events after this one. */
  readonly after: number
  readonly rowsMax: number
  readonly charsMax: number
}

export interface LoadedDelivery extends MemoryState {
  /** It was out when the process vanished that had marked it. */
  readonly isBegun: boolean
}

/** The next of what was unsettled at the last persist, in order; none: that was all. */
export async function loadMemory(db: Database, request: LoadRequest): Promise<LoadedDelivery[]> {
  const { subscription, after, rowsMax, charsMax } = request
  const rows = await db.run<LoadRow>(loadStatement(db), [subscription, after, rowsMax, charsMax])
  return rows.map((row) => {
    const [laneKey, attempts, failures, dueAfterMs, lastError, isBegun] = row
    return { event: eventFromRow(row, 6), laneKey, attempts, failures, dueAfterMs, lastError, isBegun }
  })
}

type LoadRow = [
  laneKey: string | null,
  attempts: number,
  failures: number,
  dueAfterMs: number | null,
  lastError: string | null,
  isBegun: boolean,
  ...event: unknown[],
]

/** At least one, and then as many as have not too many characters. */
const loadStatement = defineStatement(
  'load_memory',
  `select m.lane_key, m.attempts, m.failures,
    case when m.due_at > __schema__.clock()
      then least(date_part('epoch', m.due_at - __schema__.clock()) * 1000, m.wait_ms) end, m.last_error,
    m.is_begun, m.event_id, m.type, m.payload, m.ordering_key, date_part('epoch', m.created_at) * 1000,
    case when num_nonnulls(m.title, m.description, m.version, m.source, m."timestamp", m.correlation_id, m.causation_id,
        m.traceparent, m.max_retries, m.attributes) > 0
      then json_build_array(m.title, m.description, null, null, m.version, m.source, m."timestamp", m.correlation_id,
        m.causation_id, m.traceparent, null, null, m.max_retries, m.attributes)::text
    end
  from (
    select o.*, sum(length(o.payload)) over (order by o.event_id) - length(o.payload) as chars_before
    from (
      select e.*
      from __schema__.memory_events e
      join __schema__.memory_queues q on q.subscription = e.subscription
      where e.subscription = $1 and e.event_id > greatest($2, q.checkpoint)
        and not exists (
          select 1 from __schema__.memory_settled t where t.subscription = e.subscription and t.event_id = e.event_id)
      order by e.event_id
      limit $3
    ) as o
  ) as m
  where m.chars_before < $4
  order by m.event_id`,
)
