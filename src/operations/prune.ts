import { type Database, defineStatement } from '../db/database.ts'

/** Forgets idempotency keys older than a day, a bounded batch at a time. True while there are more. */
export async function pruneIdempotencyKeys(db: Database): Promise<boolean> {
  const rows = await db.run<[count: number]>(pruneKeysStatement(db), [keysMax])
  return rows[0]?.[0] === keysMax
}

const keysMax = 1_000

const pruneKeysStatement = defineStatement(
  'prune_idempotency_keys',
  `with old as (
    delete from __schema__.idempotency_keys k
    where (k.scope, k.key) in (
      select o.scope, o.key from __schema__.idempotency_keys o
      where o.created_at < __schema__.clock() - interval '25 hours'
      limit $1)
    returning 1
  )
  select count(*)::int from old`,
)
