import { type Database, defineStatement } from '../db/database.ts'

/** The number of the subscription with this id, or else this name. One that has ended is found if no other is. */
export async function findSubscriber(db: Database, which: string): Promise<number | undefined> {
  const [row] = await db.run<[no: number]>(findStatement(db), [which])
  return row?.[0]
}

const findStatement = defineStatement(
  'find_subscriber',
  `select s.no
  from __schema__.subscriptions s
  where s.id::text = lower($1) or s.name = $1
  order by s.id::text = lower($1) desc, s.status <> 'deleted' desc, s.no desc
  limit 1`,
)
