import { type Database, defineStatement } from '../db/database.ts'
import { badOption } from '../domain/bad-value.ts'
import { typeForm, typePattern } from '../domain/event.ts'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import { keepMsMax } from '../domain/retention-times.ts'
import { integer } from '../domain/subscription.ts'
import { PosthornError } from '../errors.ts'

/** What publish does with every event of a type, unless the event says otherwise. */
export interface EventType {
  readonly type: string
  /** How long after it is published, or due, such an event expires; null: never. */
  readonly maxAgeMs: number | null
  /** Whether one that no subscription wants is buried; null: as the hub says. */
  readonly requireRoute: boolean | null
  /** How long it is kept once it is finished; 0: gone as soon as it has succeeded; null: as the hub says. */
  readonly keepMs: number | null
}

export interface EventTypeOptions {
  readonly maxAgeMs?: number
  readonly requireRoute?: boolean
  readonly keepMs?: number
}

const typeOptions: NamesOf<EventTypeOptions> = { maxAgeMs: true, requireRoute: true, keepMs: true }

/** Makes the type what the options say; what they leave out goes back to the default. */
export async function upsertEventType(
  db: Database,
  type: string,
  options: EventTypeOptions,
): Promise<EventType> {
  checkOptions(options, typeOptions, 'a type of events')
  const { maxAgeMs, requireRoute, keepMs } = options
  const definition: EventType = {
    type: checkType(type),
    maxAgeMs: maxAgeMs === undefined ? null : integer('maxAgeMs', maxAgeMs, 1, keepMsMax),
    requireRoute: requireRoute === undefined ? null : checkFlag('requireRoute', requireRoute),
    keepMs: keepMs === undefined ? null : integer('keepMs', keepMs, 0, keepMsMax),
  }
  await db.run(upsertStatement(db), [
    definition.type,
    definition.maxAgeMs,
    definition.requireRoute,
    definition.keepMs,
  ])
  return definition
}

export async function listEventTypes(db: Database): Promise<EventType[]> {
  const { rows } = await db.query<EventType>(listStatement(db).text)
  return rows
}

/** Throws NOT_FOUND. */
export async function deleteEventType(db: Database, type: string): Promise<void> {
  const rows = await db.run(deleteStatement(db), [checkType(type)])
  if (rows.length === 0) throw new PosthornError('NOT_FOUND', { what: 'event type', id: type })
}

/** Events that one walk has passed over may be another's from now on: $1 is the type. */
const restartWalks = `restarted as (
    update __schema__.retention_walks
    set reached = 0, kept = null, due_at = __schema__.clock()
    where name = 'events'
  ),
  forgotten as (
    delete from __schema__.retention_walks where name = 'type:' || $1
  )`

const upsertStatement = defineStatement(
  'upsert_event_type',
  `with ${restartWalks}
  insert into __schema__.event_types (type, max_age_ms, require_route, keep_ms)
  values ($1, $2, $3, $4)
  on conflict (type) do update
  set max_age_ms = excluded.max_age_ms, require_route = excluded.require_route, keep_ms = excluded.keep_ms`,
)

const listStatement = defineStatement(
  'list_event_types',
  `select t.type, t.max_age_ms as "maxAgeMs", t.require_route as "requireRoute", t.keep_ms as "keepMs"
  from __schema__.event_types t
  order by t.type`,
)

const deleteStatement = defineStatement(
  'delete_event_type',
  `with ${restartWalks}
  delete from __schema__.event_types t where t.type = $1 returning t.type`,
)

function checkType(type: unknown): string {
  if (typeof type === 'string' && typePattern.test(type)) return type
  throw badOption('type', typeForm, type)
}

function checkFlag(option: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value
  throw badOption(option, 'true or false', value)
}
