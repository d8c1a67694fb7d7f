import { type Database, defineStatement } from '../db/database.ts'
import { isLocked } from '../db/failure.ts'

/** The queue of a subscription, as claimed by a process. */
export interface MemoryToken {
  readonly subscription: number
  /** Fresh and random: a process with an older token writes nothing more. */
  readonly token: number
}

export interface MemoryDeliveryName extends MemoryToken {
  readonly eventId: number
}

export interface MemoryClaim extends MemoryToken {
  /** The process, by name. */
  readonly worker: string
}

export interface ClaimedMemory {
  /** All events up to here are settled. */
  readonly checkpoint: number
  /** How many holders in a row vanished before this one. */
  readonly crashes: number
}

/** Who has a queue that could not be claimed, and for how long. */
export interface MemoryHolder {
  readonly worker: string
  readonly heldForMs: number
}

/** How long a queue stays with a process that says nothing more. */
export const memoryHeldMs = 5_000
/** How long a claim waits for the queue's row: a process that moves the queue has it locked now and then. */
const lockTimeoutMs = 1_000

/** Makes a queue this process's own, unless another one has it, or had it less than `vacantMs` ago. */
export async function claimMemory(
  db: Database,
  { subscription, token, worker }: MemoryClaim,
  vacantMs = 0,
): Promise<ClaimedMemory | MemoryHolder> {
  const values = [subscription, token, worker, memoryHeldMs, vacantMs]
  return unlessLocked(async () => {
    const [row] = await db.once<[checkpoint: number, crashes: number, isOurs: boolean]>(
      claimStatement(db),
      values,
      { lockTimeoutMs },
    )
    if (row?.[2]) return { checkpoint: row[0], crashes: row[1] }
    return (await holderOf(db, subscription)) ?? nobody
  })
}

/** Claims a queue that a process has left behind, without making a new one. `gone`: the queue is not in memory any more. */
export async function claimLeftMemory(
  db: Database,
  { subscription, token, worker }: MemoryClaim,
): Promise<'claimed' | MemoryHolder | 'gone'> {
  const values = [subscription, token, worker, memoryHeldMs]
  return unlessLocked(async () => {
    if ((await db.once(claimLeftStatement(db), values, { lockTimeoutMs })).length > 0) return 'claimed'
    const holder = await holderOf(db, subscription)
    if (holder !== undefined) return holder
    // The queue may have been released just now.
    return (await db.run(existsStatement(db), [subscription])).length > 0 ? nobody : 'gone'
  })
}

const nobody: MemoryHolder = { worker: '', heldForMs: 0 }

/** A process that has the queue's row locked for long has the queue, or is about to. */
async function unlessLocked<Claimed>(
  claim: () => Promise<Claimed | MemoryHolder>,
): Promise<Claimed | MemoryHolder> {
  try {
    return await claim()
  } catch (error) {
    if (!isLocked(error)) throw error
    return { worker: 'another', heldForMs: memoryHeldMs }
  }
}

/** Undefined: nobody has the queue. */
async function holderOf(db: Database, subscription: number): Promise<MemoryHolder | undefined> {
  const values = [subscription, memoryHeldMs]
  const [holder] = await db.once<[worker: string, ms: number]>(holderStatement(db), values, { lockTimeoutMs })
  return holder && { worker: holder[0], heldForMs: holder[1] }
}

/** A queue that no process has, although events of it are left in `memory_events`, and what is to become of it. */
export interface LeftMemory {
  readonly subscription: number
  readonly name: string
  readonly fate: 'move' | 'forget'
}

/** Queues whose process has vanished, and that are to be kept in the database, or whose subscription has ended. */
export async function findLeftMemory(db: Database, queuesMax: number): Promise<LeftMemory[]> {
  const rows = await db.run<[no: number, name: string, ended: boolean]>(leftStatement(db), [
    queuesMax,
    memoryHeldMs,
  ])
  return rows.map(([subscription, name, ended]) => ({ subscription, name, fate: ended ? 'forget' : 'move' }))
}

/** Keeps the claim for as long again; false: another process has the queue. */
export async function renewMemory(db: Database, { subscription, token }: MemoryToken): Promise<boolean> {
  return (await db.once(renewStatement(db), [subscription, token, memoryHeldMs], {})).length > 0
}

/** Another process may have the queue at once. */
export async function releaseMemory(db: Database, { subscription, token }: MemoryToken): Promise<void> {
  await db.once(releaseStatement(db), [subscription, token], {})
}

/** A claim that must wait until nobody has had the queue for a while ($5), and finds no row, notes from when it waits. */
const claimStatement = defineStatement(
  'claim_memory',
  `insert into __schema__.memory_queues as q (subscription, token, worker, held_until)
  select $1, c.token, c.worker, __schema__.clock() + c.ms * interval '1 ms'
  from (
    select $2::bigint as token, $3::text as worker, $4::int as ms where $5 = 0
    union all
    select null, null, 0 where $5 > 0
  ) as c
  on conflict (subscription) do update
  set token = $2, worker = $3, held_until = __schema__.clock() + $4 * interval '1 ms',
    crashes = case when q.token is null then 0 else q.crashes + 1 end
  where (q.token is null or q.held_until <= __schema__.clock())
    -- The clock may have been set back since the queue was let go of.
    and ($5 = 0 or q.held_until is null or q.held_until not between __schema__.clock() - $5 * interval '1 ms'
      and __schema__.clock() + $4 * interval '1 ms' * 2)
  returning q.checkpoint, q.crashes, q.token is not null`,
)

const claimLeftStatement = defineStatement(
  'claim_left_memory',
  `update __schema__.memory_queues q
  set token = $2, worker = $3, held_until = __schema__.clock() + $4 * interval '1 ms',
    crashes = case when q.token is null then 0 else q.crashes + 1 end
  where q.subscription = $1 and (q.token is null or q.held_until <= __schema__.clock())
  returning 1`,
)

const existsStatement = defineStatement(
  'is_in_memory',
  'select 1 from __schema__.memory_queues q where q.subscription = $1',
)

const leftStatement = defineStatement(
  'find_left_memory',
  `select s.no, s.name, s.status = 'deleted'
  from __schema__.memory_queues q
  join __schema__.subscriptions s on s.no = q.subscription
  where (s.storage = 'database' or s.status = 'deleted') and (q.token is null
    -- or it was claimed before the clock was set back
    or q.held_until not between __schema__.clock() and __schema__.clock() + $2 * interval '1 ms' * 2)
  order by s.no
  limit $1`,
)

/** A claim that lasts longer than any can was made before the clock was set back: it is cut, and its holder renews it. */
const holderStatement = defineStatement(
  'memory_holder',
  `update __schema__.memory_queues q
  set held_until = least(q.held_until, __schema__.clock() + $2 * interval '1 ms')
  where q.subscription = $1 and q.token is not null
  returning q.worker, greatest(date_part('epoch', q.held_until - __schema__.clock()) * 1000, 0)`,
)

const renewStatement = defineStatement(
  'renew_memory',
  `update __schema__.memory_queues q
  set held_until = __schema__.clock() + $3 * interval '1 ms'
  where q.subscription = $1 and q.token = $2
  returning 1`,
)

const releaseStatement = defineStatement(
  'release_memory',
  `update __schema__.memory_queues q
  set token = null, worker = null, held_until = __schema__.clock(), crashes = 0
  where q.subscription = $1 and q.token = $2`,
)
