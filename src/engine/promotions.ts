import { type Connection, type Database, defineStatement } from '../db/database.ts'

/** To be called before numbers are drawn that somebody outside the database remembers. */
export async function followPromotion(
  connection: Connection,
  db: { readonly schema: string },
): Promise<void> {
  await connection.run(followStatement(db), [])
}

/** The timeline of a server that has taken over and whose jump of ids nobody has told of yet. One process gets it. */
export async function untoldPromotion(db: Database): Promise<number | undefined> {
  await followPromotion(db, db)
  const [told] = await db.run<[timeline: number]>(tellStatement(db), [])
  return told?.[0]
}

const followStatement = defineStatement('follow_promotion', 'select __schema__.follow_promotion()')

const tellStatement = defineStatement(
  'tell_promotion',
  `update __schema__.told_timeline p
  set timeline = (select t.last_value from __schema__.id_timeline t), told_at = __schema__.clock()
  where p.timeline <> (select t.last_value from __schema__.id_timeline t)
  returning p.timeline`,
)
