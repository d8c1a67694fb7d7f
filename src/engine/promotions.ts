import type { Connection, Database } from '../db/database.ts'
import { claimPromotionStatement, followPromotionStatement } from './upkeep-statements.ts'

/** Call this before drawing numbers that are remembered outside of the database. */
export async function followPromotion(
  connection: Connection,
  db: { readonly schema: string },
): Promise<void> {
  await connection.run(followPromotionStatement(db), [])
}

/** The timeline of a promoted server, for the one process that is to report its promotion; undefined: there is none to report. */
export async function unreportedPromotion(db: Database): Promise<number | undefined> {
  await followPromotion(db, db)
  const [row] = await db.run<[timeline: number]>(claimPromotionStatement(db), [])
  return row?.[0]
}
