import { type Database, defineStatement } from '../db/database.ts'

/** Whether any subscription wants events of this type. */
export async function isRouted(db: Database, type: string): Promise<boolean> {
  const rows = await db.run<[routed: boolean]>(isRoutedStatement(db), [type])
  return rows[0]?.[0] ?? false
}

const isRoutedStatement = defineStatement(
  'is_routed',
  `select r.owed <> '{}' from __schema__.route($1, null) as r`,
)
