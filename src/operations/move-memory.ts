import { type Database, defineStatement } from '../db/database.ts'
import { heldMemory, storeTaken } from './memory-sql.ts'

export interface MoveMemoryRequest {
  readonly subscription: number
  readonly token: number
  readonly rowsMax: number
}

/** Moves some of what a queue had in memory to the durable tables, in order. How much that was. */
export async function moveMemory(
  db: Database,
  { subscription, token, rowsMax }: MoveMemoryRequest,
): Promise<number> {
  const values = [subscription, token, rowsMax]
  const [row] = await db.once<[moved: number]>(moveStatement(db), values, {})
  return (row as [number])[0]
}

/** Whether anything is left that a process had in memory. */
export async function isInMemory(db: Database, subscription: number): Promise<boolean> {
  const rows = await db.run(leftStatement(db), [subscription])
  return rows.length > 0
}

/** Forgets a queue that is kept in memory no more. */
export async function forgetMemory(
  db: Database,
  { subscription, token }: Omit<MoveMemoryRequest, 'rowsMax'>,
): Promise<void> {
  await db.once(forgetStatement(db), [subscription, token], {})
}

const moveStatement = defineStatement(
  'move_memory',
  `with ${heldMemory},
  taken as (
    delete from __schema__.memory_events m
    using held h
    where m.subscription = $1 and m.event_id = any(array(
      select o.event_id
      from __schema__.memory_events o
      where o.subscription = $1 and o.event_id > h.checkpoint
        and not exists (
          select 1 from __schema__.memory_settled t where t.subscription = $1 and t.event_id = o.event_id)
      order by o.event_id
      limit $3))
    returning m.*
  ),
  ${storeTaken},
  sent as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, due_at, attempts, failures)
    select m.subscription,
      (case when m.due_at > __schema__.clock() then 'deferred' else 'ready' end)::__schema__.run_state,
      array[m.event_id], m.event_id, case when m.due_at > __schema__.clock() then m.due_at end, m.attempts, m.failures
    from taken m
    where m.lane_key is null
  ),
  arrivals as (
    insert into __schema__.inbox (subscription, event_ids, ordering_keys)
    select m.subscription, array_agg(m.event_id order by m.event_id), array_agg(m.lane_key order by m.event_id)
    from taken m
    where m.lane_key is not null
    group by m.subscription
  )
  select count(*)::int from taken`,
)

const leftStatement = defineStatement(
  'is_in_memory',
  'select 1 from __schema__.memory_queues q where q.subscription = $1',
)

const forgetStatement = defineStatement(
  'forget_memory',
  `with held as (
    delete from __schema__.memory_queues q
    where q.subscription = $1 and q.token = $2
    returning q.subscription
  ),
  gone as (
    delete from __schema__.memory_events m using held h where m.subscription = h.subscription
  )
  delete from __schema__.memory_settled t using held h where t.subscription = h.subscription`,
)
