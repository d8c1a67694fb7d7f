import { type Database, defineStatement } from '../db/database.ts'
import type { PruneStep } from './prune-events.ts'
import { endStep, type Turn, takeWalk } from './retention-walk.ts'

const lanesMax = 2_000
const nextPassMs = 24 * 60 * 60_000

/**
 * Forgets how far lanes are numbered that were idle for long: their numbering begins anew. When a lane was last used has
 * no index, since it changes with every lease, so all lanes are walked over, once a day.
 */
export async function pruneLanes(
  db: Database,
  { keepMs, turn }: { readonly keepMs: number; readonly turn: Turn },
): Promise<PruneStep> {
  return db.transaction(
    async (tx) => {
      const walk = await takeWalk(tx, db, { name: 'lanes', turn })
      if (walk === undefined) return { removed: 0, more: false }
      const values = [walk.reached, walk.reachedKey, keepMs, lanesMax]
      const [row] = await tx.run<PruneRow>(pruneStatement(db), values)
      const [removed, seen, reached, reachedKey] = row as PruneRow
      const isOver = seen < lanesMax
      await endStep(tx, db, {
        ...{ name: walk.name, reached: isOver ? 0 : reached, reachedKey, kept: null },
        nextPassMs: isOver ? nextPassMs : null,
      })
      return { removed, more: !isOver }
    },
    { indexPlans: true },
  )
}

/** A lane with something out may be numbered at this moment. */
const pruneStatement = defineStatement(
  'prune_lanes',
  `with seen as materialized (
    select c.subscription, c.ordering_key, c.touched_at
    from __schema__.lane_counters c
    where (c.subscription, c.ordering_key) > ($1::int, $2)
    order by c.subscription, c.ordering_key
    limit $4
  ),
  removed as (
    delete from __schema__.lane_counters c
    using seen s
    where c.subscription = s.subscription and c.ordering_key = s.ordering_key
      and s.touched_at < __schema__.clock() - $3 * interval '1 ms'
      and c.touched_at < __schema__.clock() - $3 * interval '1 ms'
      and not exists (
        select 1 from __schema__.runs r
        where r.subscription = s.subscription and r.ordering_key = s.ordering_key and r.state not in ('delayed', 'held'))
    returning 1
  ),
  last as (
    select s.subscription, s.ordering_key from seen s order by s.subscription desc, s.ordering_key desc limit 1
  )
  select (select count(*)::int from removed), (select count(*)::int from seen),
    coalesce((select l.subscription from last l), 0), coalesce((select l.ordering_key from last l), '')`,
)

type PruneRow = [removed: number, seen: number, reached: number, reachedKey: string]
