import { type Connection, defineStatement } from '../db/database.ts'
import { toStorable } from '../domain/text.ts'

/** A change that somebody made: who changed what, and from where. */
export interface Action {
  /** The id of an API key, `admin`, `local`, or the user of the command line. */
  readonly actor: string
  /** `key.create`, `key.revoke` … */
  readonly action: string
  readonly target?: string | null
  /** In snake_case, since people read it by SQL. Never a secret. */
  readonly details?: Readonly<Record<string, unknown>> | null
  /** The address that the request came from. */
  readonly remote?: string | null
}

/** Writes to the admin log; in a transaction, the record is stored only if the change is. */
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

const textCharsMax = 1_000
const detailsCharsMax = 10_000

const recordStatement = defineStatement(
  'record_action',
  `insert into __schema__.admin_log (actor, action, target, details, remote)
  values ($1, $2, $3, $4, $5)`,
)

function optionalText(text: string | null | undefined): string | null {
  return text == null ? null : toStorable(text, textCharsMax)
}

/** Cuts long details, so that an action does not fail because of its record. */
function toDocument(details: Action['details']): string | null {
  if (details == null) return null
  const text = JSON.stringify(details)
  return text.length <= detailsCharsMax ? text : JSON.stringify({ cut: toStorable(text, detailsCharsMax) })
}
