import { type Database, defineStatement } from '../db/database.ts'
import type { MemoryDeliveryName } from './claim-memory.ts'

/** Marks a suspect as begun, so that it is the one to be charged if it ends its process; false: it cannot begin. */
export async function markMemory(
  db: Database,
  { subscription, token, eventId }: MemoryDeliveryName,
): Promise<boolean> {
  const rows = await db.once(markStatement(db), [subscription, token, eventId], {})
  return rows.length > 0
}

const markStatement = defineStatement(
  'mark_memory',
  `update __schema__.memory_events m
  set is_begun = true
  from __schema__.memory_queues q
  where q.subscription = $1 and q.token = $2 and m.subscription = $1 and m.event_id = $3
  returning 1`,
)
