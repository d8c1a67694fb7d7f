import { type Database, defineStatement } from '../db/database.ts'
import type { PruneStep } from './prune-events.ts'

const lettersMax = 500
/** A snapshot may have a megabyte. */
const snapshotBytesMax = 16 * 2 ** 20

/** Removes dead letters whose time is over, a bounded step of them; not those that a blocked lane waits for. */
export async function pruneDeadLetters(db: Database, keepMs: number): Promise<PruneStep> {
  const values = [keepMs, lettersMax, snapshotBytesMax]
  const [row] = await db.once<[removed: number, more: boolean]>(pruneStatement(db), values, {
    indexPlans: true,
  })
  const [removed, more] = row as [number, boolean]
  return { removed, more }
}

/** An id begins with the time of burial: it bounds the search, give or take its rounding. `d`, kept for $1 ms. */
export const oldLetters = `__schema__.dead_letters d
    where d.id < (lpad(to_hex(floor(extract(epoch from __schema__.clock() - $1 * interval '1 ms') * 1000)::bigint + 1000), 12, '0')
        || repeat('0', 20))::uuid
      and d.buried_at <= __schema__.clock() - $1 * interval '1 ms'
      and not exists (
        select 1 from __schema__.runs b
        where b.state = 'blocked' and b.blocked_by = d.event_id and b.subscription = d.subscription)`

const pruneStatement = defineStatement(
  'prune_dead_letters',
  `with old as materialized (
    select d.id, pg_column_size(d.event_snapshot) as bytes
    from ${oldLetters}
    order by d.id
    limit $2::int
    for update skip locked
  ),
  chosen as materialized (
    select m.id from (select o.id, sum(o.bytes) over (order by o.id) - o.bytes as before from old o) as m where m.before < $3::int
  ),
  removed as (
    delete from __schema__.dead_letters d where d.id = any(array(select c.id from chosen c))
  )
  select (select count(*)::int from chosen),
    (select count(*) from old) = $2 or (select count(*) from chosen) < (select count(*) from old)`,
)
