import { type Database, defineStatement } from '../db/database.ts'

/** Handler subscriptions that no live handler has served for ten minutes. */
export async function abandonedSubscriptions(db: Database): Promise<string[]> {
  const rows = await db.run<[name: string]>(abandonedStatement(db), [])
  return rows.map(([name]) => name)
}

const abandonedStatement = defineStatement(
  'abandoned_subscriptions',
  `select s.name from __schema__.subscriptions s
  where s.via = 'handler' and s.status = 'active' and s.handler_seen_at < __schema__.clock() - interval '10 min'`,
)
