import { type Database, defineStatement } from '../db/database.ts'
import { typePattern } from '../domain/event.ts'
import { integer } from '../domain/subscription.ts'
import { toDetail } from '../domain/text.ts'
import { PosthornError } from '../errors.ts'

/** What publish does with every event of a type, unless the event says otherwise. */
export interface EventType {
  readonly type: string
  /** How long after it is published, or due, such an event expires; null: never. */
  readonly maxAgeMs: number | null
  /** Whether one that no subscription wants is buried; null: as the hub says. */
  readonly requireRoute: boolean | null
}

export interface EventTypeOptions {
  readonly maxAgeMs?: number
  readonly requireRoute?: boolean
}

const maxAgeMsMax = 10 * 365 * 24 * 60 * 60 * 1000

/** Makes the type what the options say; what they leave out goes back to the default. */
export async function upsertEventType(
  db: Database,
  type: string,
  options: EventTypeOptions,
): Promise<EventType> {
  const { maxAgeMs, requireRoute } = options
  const definition: EventType = {
    type: checkType(type),
    maxAgeMs: maxAgeMs === undefined ? null : integer('maxAgeMs', maxAgeMs, 1, maxAgeMsMax),
    requireRoute: requireRoute === undefined ? null : checkFlag('requireRoute', requireRoute),
  }
  await db.run(upsertStatement(db), [definition.type, definition.maxAgeMs, definition.requireRoute])
  return definition
}

export async function listEventTypes(db: Database): Promise<EventType[]> {
  const rows = await db.run<EventTypeRow>(listStatement(db), [])
  return rows.map(([type, maxAgeMs, requireRoute]) => ({ type, maxAgeMs, requireRoute }))
}

/** Whether there was one. */
export async function deleteEventType(db: Database, type: string): Promise<boolean> {
  return (await db.run(deleteStatement(db), [checkType(type)])).length > 0
}

const upsertStatement = defineStatement(
  'upsert_event_type',
  `insert into __schema__.event_types (type, max_age_ms, require_route)
  values ($1, $2, $3)
  on conflict (type) do update
  set max_age_ms = excluded.max_age_ms, require_route = excluded.require_route`,
)

const listStatement = defineStatement(
  'list_event_types',
  'select t.type, t.max_age_ms, t.require_route from __schema__.event_types t order by t.type',
)

const deleteStatement = defineStatement(
  'delete_event_type',
  'delete from __schema__.event_types t where t.type = $1 returning t.type',
)

type EventTypeRow = [type: string, maxAgeMs: number | null, requireRoute: boolean | null]

function checkType(type: unknown): string {
  if (typeof type === 'string' && typePattern.test(type)) return type
  throw badOption('type', '1 to 100 of A-Z a-z 0-9 _ . : -', type)
}

function checkFlag(option: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value
  throw badOption(option, 'true or false', value)
}

function badOption(option: string, expected: string, value: unknown): PosthornError {
  return new PosthornError('BAD_OPTION', { option, expected, value: toDetail(value) })
}
