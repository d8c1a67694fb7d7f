import type { Database } from '../db/database.ts'
import type { ChunkKey } from './cancel.ts'
import {
  findOrphanedChunksStatement,
  findOrphanedRunsStatement,
  forgetBlockedLanesStatement,
} from './cancel-statements.ts'

/** Some of the rows in which deliveries wait for deleted subscriptions; undefined: there are none. There may be millions. */
export async function orphanedDeliveries(
  db: Database,
): Promise<{ runIds: number[]; chunks: ChunkKey[] } | undefined> {
  const runIds = (await db.run<[id: number]>(findOrphanedRunsStatement(db), [])).map(([id]) => id)
  const chunks = await db.run<ChunkKey>(findOrphanedChunksStatement(db), [])
  return runIds.length + chunks.length > 0 ? { runIds, chunks } : undefined
}

/** Deletes blocked lanes of deleted subscriptions: no operator will decide about them. True: there may be more. */
export async function forgetBlockedLanes(db: Database): Promise<boolean> {
  const rows = await db.once<[id: number]>(forgetBlockedLanesStatement(db), [lanesMax], { indexPlans: true })
  return rows.length === lanesMax
}

const lanesMax = 500
