import { type Connection, type Database, defineStatement } from '../db/database.ts'
import { checkEventId } from '../domain/id.ts'
import { PosthornError } from '../errors.ts'
import { type Action, recordAction } from '../keys/admin-log.ts'

export interface PurgeRequest {
  readonly eventId: number
  /** Who asked for it and why, for the admin log. */
  readonly action: Action
}

export interface Purged {
  readonly eventId: number
  /** The first time that it was. */
  readonly purgedAt: Date
}

/**
 * Erases what a finished event said: its payload, title, description and attributes, in the event, in the snapshots of
 * its dead letters, and what receivers answered to it. Its audit stays. It is never delivered again. Throws NOT_FOUND,
 * or NOT_FINISHED. Doing it twice is doing it once.
 */
export async function purge(db: Database, { eventId, action }: PurgeRequest): Promise<Purged> {
  checkEventId(eventId)
  return db.transaction(
    async (tx) => {
      // First the locks: whoever would send it again waits, and then finds it purged.
      const [event] = await tx.run<[purgedAt: Date | null]>(lockEvent(db), [eventId])
      const letters = await tx.run<[purgedAt: Date | null]>(lockLetters(db), [eventId])
      const purgedAt = event === undefined ? letters.find(([at]) => at !== null)?.[0] : event[0]
      if (purgedAt != null) return { eventId, purgedAt }
      if (event !== undefined) await checkFinished(tx, db, eventId)
      else if (letters.length === 0) throw new PosthornError('NOT_FOUND', { what: 'event', id: eventId })
      await recordAction(db, action, tx)
      const [row] = await tx.run<[now: Date]>(purgeStatement(db), [eventId])
      return { eventId, purgedAt: (row as [Date])[0] }
    },
    { indexPlans: true },
  )
}

/** By a statement of its own, after the locks. */
async function checkFinished(
  tx: Connection,
  db: { readonly schema: string },
  eventId: number,
): Promise<void> {
  const rows = await tx.run<[eventId: number]>(finishedStatement(db), [eventId])
  if (rows.length === 0) throw new PosthornError('NOT_FINISHED', { eventId })
}

const lockEvent = defineStatement(
  'lock_event_to_purge',
  'select e.purged_at from __schema__.events e where e.id = $1 for update',
)

const lockLetters = defineStatement(
  'lock_letters_to_purge',
  'select d.purged_at from __schema__.dead_letters d where d.event_id = $1 order by d.id for update',
)

const finishedStatement = defineStatement(
  'is_finished',
  `select f.event_id
  from __schema__.finished_events(array[$1::bigint]) as f
  where not exists (
    select 1
    from __schema__.memory_queues q
    join __schema__.memory_events m on m.subscription = q.subscription and m.event_id = $1 and m.event_id > q.checkpoint)`,
)

/** Of an answer only what it said goes: its headers are those of a server, hidden where they could be secret. */
const purgeStatement = defineStatement(
  'purge_event',
  `with event as (
    update __schema__.events e
    set payload = 'null', title = null, description = null, attributes = null, purged_at = __schema__.clock()
    where e.id = $1::bigint
  ),
  letters as (
    update __schema__.dead_letters d
    set event_snapshot = __schema__.purged_document(d.event_snapshot, __schema__.clock()), purged_at = __schema__.clock()
    where d.event_id = $1
  ),
  answers as (
    update __schema__.exchanges x
    set response = json_build_object('headers', __schema__.decodable(x.response)->'headers', 'body', '',
      'bytes', __schema__.decodable(x.response)->'bytes')
    where x.event_id = $1 and x.response is not null
  ),
  memory as (
    update __schema__.memory_events m
    set payload = 'null', title = null, description = null, attributes = null
    from __schema__.memory_queues q
    where m.subscription = q.subscription and m.event_id = $1
  ),
  documents as (
    update __schema__.event_queue_state d
    set events = (
      select coalesce(jsonb_agg(u.event order by u.place), '[]')
      from jsonb_array_elements(d.events) with ordinality as u(event, place)
      where u.event->>'eventId' <> $1::text)
    where d.events @> jsonb_build_array(jsonb_build_object('eventId', $1::text))
  )
  select __schema__.clock()`,
)
