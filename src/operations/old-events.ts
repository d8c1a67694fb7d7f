import { numberArray } from '../db/array.ts'
import { type Connection, defineStatement } from '../db/database.ts'

/** Events whose time may be over: those of one type that says how long it keeps, or all whose type does not. */
export interface OldEventsRequest {
  readonly type: string | null
  readonly keepMs: number
  /** Ids above this one. */
  readonly after: number
}

export interface OldEvents {
  /** In order. Whether they are finished is not looked at. */
  readonly eventIds: readonly number[]
  readonly reached: number
  /** All that lies beyond is too young. */
  readonly isOver: boolean
}

/** Of one step. Long payloads are many rows of a table of their own, so a step is bounded by their bytes as well. */
const seenMax = 1_000
const payloadBytesMax = 16 * 2 ** 20

/** The next events that were published before the time for which they are kept. */
export async function chooseOldEvents(
  tx: Connection,
  db: { readonly schema: string },
  { type, keepMs, after }: OldEventsRequest,
): Promise<OldEvents> {
  const bounds = [after, keepMs, seenMax, payloadBytesMax]
  const rows =
    type === null
      ? await tx.run<OldEventsRow>(chooseOthers(db), bounds)
      : await tx.run<OldEventsRow>(chooseOfType(db), [...bounds, type])
  const [eventIds, reached, isOver] = rows[0] as OldEventsRow
  return { eventIds, reached, isOver }
}

/** Which of them are finished since long enough, and are no dead letter that somebody could still redrive. */
export async function finishedAmong(
  tx: Connection,
  db: { readonly schema: string },
  { eventIds, keepMs }: { readonly eventIds: readonly number[]; readonly keepMs: number },
): Promise<number[]> {
  if (eventIds.length === 0) return []
  const rows = await tx.run<[eventId: number]>(finishedStatement(db), [numberArray(eventIds), keepMs])
  return rows.map(([eventId]) => eventId)
}

/** `f`, of the events that are given as $1, kept for $2 ms: shared with what removes them. Their letters are read once. */
export const finishedLongAgo = `__schema__.finished_events($1::bigint[]) as f
    where f.finished_at <= __schema__.clock() - $2 * interval '1 ms'
      and f.event_id not in (
        select l.event_id from __schema__.dead_letters l where l.event_id = any($1) and l.redriven_at is null)`

/**
 * Ids follow the time of publishing but for a moment, so the first that is too young ends the pass: to look for older
 * ones behind it would be to read all there is.
 */
function chooseStatement(ofType: string, isMeant: string): string {
  return `with seen as materialized (
    select e.id, e.type, e.created_at, pg_column_size(e.payload) as bytes
    from __schema__.events e
    where e.id > $1 and ${ofType}
    order by e.id
    limit $3::int
  ),
  measured as materialized (
    select s.id, s.type,
      bool_or(s.created_at > __schema__.clock() - $2 * interval '1 ms') over (order by s.id) as is_young,
      sum(s.bytes) over (order by s.id) - s.bytes < $4::int as fits
    from seen s
  )
  select array(
      select m.id from measured m where m.fits and not m.is_young and ${isMeant} order by m.id),
    coalesce((select max(m.id) from measured m where m.fits and not m.is_young), $1::bigint),
    (select coalesce(bool_or(m.is_young and m.fits), false) or (count(*) < $3 and coalesce(bool_and(m.fits), true))
      from measured m)`
}

const chooseOfType = defineStatement('choose_old_of_type', chooseStatement('e.type = $5', 'true'))

const chooseOthers = defineStatement(
  'choose_old_events',
  chooseStatement(
    'true',
    `not exists (
        select 1 from __schema__.event_types t where t.type = m.type and t.keep_ms is not null)`,
  ),
)

const finishedStatement = defineStatement('finished_among', `select f.event_id from ${finishedLongAgo}`)

type OldEventsRow = [eventIds: number[], reached: number, isOver: boolean]
