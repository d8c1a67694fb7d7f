import type { Database } from '../db/database.ts'
import { findAbandonedStatement } from './subscription-statements.ts'

/** Handler subscriptions that no live handler has served for ten minutes. */
export async function abandonedSubscriptions(db: Database): Promise<string[]> {
  const rows = await db.run<[name: string]>(findAbandonedStatement(db), [])
  return rows.map(([name]) => name)
}
