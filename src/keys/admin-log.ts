import { checkWhole, limitMax } from '../core/paging.ts'
import { type Connection, type Database, defineStatement } from '../db/database.ts'
import { toStorable } from '../domain/text.ts'

/** Something that somebody changed: who, what, to what, from where. */
export interface Action {
  /** The id of a key, `admin`, or who ran the command line. */
  readonly actor: string
  /** `key.create`, `key.revoke` … */
  readonly action: string
  readonly target?: string | null
  /** In snake_case, as it is read by SQL. Never a secret. */
  readonly details?: Readonly<Record<string, unknown>> | null
  /** The address it came from. */
  readonly remote?: string | null
}

export interface RecordedAction {
  readonly id: number
  readonly at: Date
  readonly actor: string
  readonly action: string
  readonly target: string | null
  readonly details: Readonly<Record<string, unknown>> | null
  readonly remote: string | null
}

export interface ActionFilter {
  /** 1 to 1,000. Default 100. */
  readonly limit?: number
  /** Only those before the one with this id. */
  readonly before?: number
}

/** With a transaction the record stands or falls with what it tells of. */
export async function recordAction(
  db: Connection & { readonly schema: string },
  action: Action,
  tx: Connection = db,
): Promise<void> {
  await tx.run(recordStatement(db), [
    toStorable(action.actor, textCharsMax),
    toStorable(action.action, textCharsMax),
    optionalText(action.target),
    toDocument(action.details),
    optionalText(action.remote),
  ])
}

/** The newest first. */
export async function listActions(db: Database, filter: ActionFilter = {}): Promise<RecordedAction[]> {
  const { limit = 100, before = Number.MAX_SAFE_INTEGER } = filter
  checkWhole('limit', limit, 1, limitMax)
  checkWhole('before', before, 0, Number.MAX_SAFE_INTEGER)
  const rows = await db.run<ActionRow>(listStatement(db), [before, limit])
  return rows.map(([id, at, actor, action, target, details, remote]) => ({
    ...{ id, at, actor, action, target, details, remote },
  }))
}

const textCharsMax = 1_000
const detailsCharsMax = 10_000

const recordStatement = defineStatement(
  'record_action',
  `insert into __schema__.admin_log (actor, action, target, details, remote)
  values ($1, $2, $3, $4, $5)`,
)

const listStatement = defineStatement(
  'list_actions',
  `select l.id, l.at, l.actor, l.action, l.target, l.details, l.remote
  from __schema__.admin_log l
  where l.id < $1
  order by l.id desc
  limit $2`,
)

type ActionRow = [
  id: number,
  at: Date,
  actor: string,
  action: string,
  target: string | null,
  details: Record<string, unknown> | null,
  remote: string | null,
]

function optionalText(text: string | null | undefined): string | null {
  return text == null ? null : toStorable(text, textCharsMax)
}

/** An action must not fail for being told at length. */
function toDocument(details: Action['details']): string | null {
  if (details == null) return null
  const text = JSON.stringify(details)
  return text.length <= detailsCharsMax ? text : JSON.stringify({ cut: toStorable(text, detailsCharsMax) })
}
