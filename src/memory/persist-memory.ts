import { numberArray, textArray } from '../db/array.ts'
import { type Database, defineStatement } from '../db/database.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import { type MemoryToken, memoryHeldMs } from './claim-memory.ts'

/** An unsettled delivery as it is to be found after a crash. */
export interface MemoryState {
  readonly event: StoredEvent
  readonly laneKey: string | null
  readonly attempts: number
  readonly failures: number
  /** In how many ms it is due; null: now. */
  readonly dueAfterMs: number | null
  readonly lastError: string | null
}

/** What was done since the last persist. */
export interface MemoryTally {
  readonly processed: number
  readonly errors: number
  /** Attempts whose duration is in `executionMs`. */
  readonly timed: number
  readonly executionMs: number
  /** The last event that was completed. */
  readonly lastId: number | null
}

export interface PersistRequest extends MemoryToken {
  readonly checkpoint: number
  readonly depth: number
  /** Not stored yet. */
  readonly added: readonly MemoryState[]
  /** Stored, and tried since. */
  readonly changed: readonly MemoryState[]
  /** Stored, and settled since, above the checkpoint. */
  readonly settled: readonly number[]
  readonly tally: MemoryTally
  /** Nothing is left of what a vanished holder may have been at. */
  readonly isCleared: boolean
}

/** Writes what has changed, and renews the claim. Undefined: another process has the queue, and nothing was written. */
export async function persistMemory(db: Database, request: PersistRequest): Promise<number | undefined> {
  const [row] = await db.once<[nowMs: number]>(persistStatement(db), persistValues(request), {
    indexPlans: true,
  })
  return row?.[0]
}

function persistValues(request: PersistRequest): unknown[] {
  const { subscription, token, checkpoint, depth, added, changed, settled, tally } = request
  const events = added.map(({ event }) => event)
  const texts = (value: (event: StoredEvent) => string | null) => column(events, value, textArray)
  const rest = [tally.processed, tally.errors, tally.timed, tally.executionMs, tally.lastId]
  return [
    ...[subscription, token, checkpoint, depth, memoryHeldMs],
    numberArray(events.map(({ id }) => id)),
    textArray(events.map(({ payloadText }) => payloadText)),
    numberArray(events.map(({ createdAt }) => createdAt.getTime())),
    texts(({ type }) => type),
    texts(({ title }) => title),
    texts(({ description }) => description),
    texts(({ orderingKey }) => orderingKey),
    column(added, ({ laneKey }) => laneKey, textArray),
    texts(({ version }) => version),
    texts(({ source }) => source && JSON.stringify(source)),
    texts(({ timestamp }) => (timestamp === null ? null : timestamp.toISOString())),
    texts(({ correlationId }) => correlationId),
    texts(({ causationId }) => causationId),
    texts(({ traceparent }) => traceparent),
    column(events, ({ maxRetries }) => maxRetries, numberArray),
    texts(({ attributes }) => attributes && JSON.stringify(attributes)),
    ...stateValues(added),
    numberArray(changed.map(({ event }) => event.id)),
    ...stateValues(changed),
    numberArray(settled),
    ...rest,
    request.isCleared,
  ]
}

function stateValues(states: readonly MemoryState[]): unknown[] {
  return [
    column(states, ({ attempts }) => attempts || null, numberArray),
    column(states, ({ failures }) => failures || null, numberArray),
    column(states, ({ dueAfterMs }) => dueAfterMs && Math.round(dueAfterMs), numberArray),
    column(states, ({ lastError }) => lastError, textArray),
  ]
}

/** A column that nothing uses is null as a whole and costs nothing. */
function column<Item, T>(
  items: readonly Item[],
  value: (item: Item) => T | null,
  format: (values: (T | null)[]) => string,
): string | null {
  const values = items.map(value)
  return values.every((one) => one === null) ? null : format(values)
}

/**
 * `held` is the fence: everything else is done only if the queue is still the caller's. Rows at or below the checkpoint
 * mean nothing any more, so those are left to the compaction.
 */
const persistStatement = defineStatement(
  'persist_memory',
  `with held as (
    update __schema__.memory_queues q
    set checkpoint = greatest(q.checkpoint, $3), depth = $4, persisted_at = __schema__.clock(),
      held_until = __schema__.clock() + $5 * interval '1 ms',
      crashes = case when $37 then 0 else q.crashes end
    where q.subscription = $1 and q.token = $2
    returning q.subscription
  ),
  added as (
    insert into __schema__.memory_events (subscription, event_id, payload, created_at, type, title, description,
      ordering_key, lane_key, version, source, "timestamp", correlation_id, causation_id, traceparent, max_retries,
      attributes, attempts, failures, due_at, wait_ms, last_error, last_error_at)
    select h.subscription, u.id, u.payload, to_timestamp(u.created_ms / 1000), u.type, u.title, u.description,
      u.ordering_key, u.lane_key, u.version, u.source::json, u.at, u.correlation_id, u.causation_id, u.traceparent,
      u.max_retries, u.attributes::json, coalesce(u.attempts, 0), coalesce(u.failures, 0),
      __schema__.clock() + u.due_ms * interval '1 ms', u.due_ms, u.last_error,
      case when u.last_error is not null then __schema__.clock() end
    from held h
    cross join unnest($6::bigint[], $7::text[], $8::float8[], $9::text[], $10::text[], $11::text[], $12::text[],
        $13::text[], $14::text[], $15::text[], $16::timestamptz[], $17::text[], $18::text[], $19::text[],
        $20::smallint[], $21::text[], $22::int[], $23::int[], $24::bigint[], $25::text[])
      as u(id, payload, created_ms, type, title, description, ordering_key, lane_key, version, source, at,
        correlation_id, causation_id, traceparent, max_retries, attributes, attempts, failures, due_ms, last_error)
    on conflict (subscription, event_id) do update   -- the answer of the persist before was lost
    set attempts = excluded.attempts, failures = excluded.failures, due_at = excluded.due_at,
      wait_ms = excluded.wait_ms, last_error = excluded.last_error, last_error_at = excluded.last_error_at
  ),
  changed as (
    update __schema__.memory_events m
    set attempts = coalesce(u.attempts, 0), failures = coalesce(u.failures, 0),
      due_at = __schema__.clock() + u.due_ms * interval '1 ms', wait_ms = u.due_ms, last_error = u.last_error,
      last_error_at = case when u.last_error is not null then __schema__.clock() end, is_begun = false
    from held h
    cross join unnest($26::bigint[], $27::int[], $28::int[], $29::bigint[], $30::text[])
      as u(id, attempts, failures, due_ms, last_error)
    where m.subscription = $1 and m.event_id = u.id and m.event_id = any($26)
  ),
  gone as (
    delete from __schema__.memory_events m
    using held h
    where m.subscription = $1 and m.event_id = any($31::bigint[])
  ),
  tallied as (
    insert into __schema__.queue_tallies (subscription, processed, errors, timed, execution_ms, last_id)
    select h.subscription, $32, $33, $34, $35, $36::bigint
    from held h
    where $32::int + $33::int + $34::int > 0
  )
  select date_part('epoch', __schema__.clock()) * 1000 from held`,
)
