import { type Database, defineStatement } from '../db/database.ts'

/** Removes some rows that the checkpoint covers. Returns how many: fewer than `rowsMax` means that none are left. */
export async function compactMemory(
  db: Database,
  { subscription, rowsMax }: { readonly subscription: number; readonly rowsMax: number },
): Promise<number> {
  const [row] = await db.once<[removed: number]>(compactStatement(db), [subscription, rowsMax], {
    durable: false,
    indexPlans: true,
  })
  return (row as [number])[0]
}

/** Needs no token: whichever process has the queue, rows that the checkpoint covers are not read again. */
const compactStatement = defineStatement(
  'compact_memory',
  `with covered as materialized (
    select q.checkpoint from __schema__.memory_queues q where q.subscription = $1
  ),
  gone as (
    delete from __schema__.memory_events m
    where m.subscription = $1 and m.event_id = any(array(
      select o.event_id
      from __schema__.memory_events o
      where o.subscription = $1 and o.event_id <= (select c.checkpoint from covered c)
      order by o.event_id
      limit $2
    ))
    returning 1
  ),
  forgotten as (
    delete from __schema__.memory_settled m
    where m.subscription = $1 and m.event_id = any(array(
      select o.event_id
      from __schema__.memory_settled o
      where o.subscription = $1 and o.event_id <= (select c.checkpoint from covered c)
      order by o.event_id
      limit $2
    ))
    returning 1
  )
  select ((select count(*) from gone) + (select count(*) from forgotten))::int`,
)
