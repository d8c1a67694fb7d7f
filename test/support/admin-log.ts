import type { Database } from '../../src/db/database.ts'

export interface RecordedAction {
  readonly id: number
  readonly at: Date
  readonly actor: string
  readonly action: string
  readonly target: string | null
  readonly details: Readonly<Record<string, unknown>> | null
  readonly remote: string | null
}

/** The admin log, newest action first. */
export async function listActions(db: Database): Promise<RecordedAction[]> {
  const { rows } = await db.query<RecordedAction>(
    `select id, at, actor, action, target, details, remote from ${db.schema}.admin_log order by id desc limit 1000`,
  )
  return rows
}
