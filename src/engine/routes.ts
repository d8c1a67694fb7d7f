import type { Database } from '../db/database.ts'
import { isRoutedStatement } from './publish-statements.ts'

/** Whether any subscription wants events of this type. */
export async function isRouted(db: Database, type: string): Promise<boolean> {
  const rows = await db.run<[routed: boolean]>(isRoutedStatement(db), [type])
  return rows[0]?.[0] ?? false
}
