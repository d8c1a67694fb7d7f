import type { RetentionConfig } from '../domain/retention-times.ts'
import { createRetention, type Retention } from '../retention/retention.ts'
import { withDatabase } from './database.ts'

/** For the time of one command. Counts and troubles are the command's to tell. */
export async function withRetention<T>(
  config: RetentionConfig,
  work: (retention: Retention) => Promise<T>,
): Promise<T> {
  const { checkSchema, migrate } = await import('../db/migrate.ts')
  return withDatabase({ embedded: 'existing' }, async ({ db, embedded }) => {
    // A server of somebody else's is migrated when that is asked for; our own belongs to this version anyway.
    if (embedded === undefined) await checkSchema(db)
    else await migrate(db)
    const ignore = () => undefined
    return work(createRetention({ db, config, observe: { pruned: ignore, failed: ignore } }))
  })
}
