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

const removeCovered = (table: string) => `
    delete from __schema__.${table} m
    where m.subscription = $1 and m.event_id = any(array(
      select o.event_id
      from __schema__.${table} o
      where o.subscription = $1 and o.event_id <= (select c.checkpoint from covered c)
      order by o.event_id
      limit $2))
    returning 1`

/** Whoever has the queue: nobody needs these rows any more. */
const compactStatement = defineStatement(
  'compact_memory',
  `with covered as materialized (
    select q.checkpoint from __schema__.memory_queues q where q.subscription = $1
  ),
  gone as (${removeCovered('memory_events')}),
  forgotten as (${removeCovered('memory_settled')})
  select ((select count(*) from gone) + (select count(*) from forgotten))::int`,
)
