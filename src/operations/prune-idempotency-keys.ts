import { type Database, defineStatement } from '../db/database.ts'
import type { PruneStep } from './prune-events.ts'

/** Forgets idempotency keys older than a day, a bounded batch at a time. */
export async function pruneIdempotencyKeys(db: Database): Promise<PruneStep> {
  const [row] = await db.run<[count: number]>(pruneKeysStatement(db), [keysMax])
  const removed = row?.[0] ?? 0
  return { removed, more: removed === keysMax }
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
