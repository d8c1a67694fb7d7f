import { type Database, defineStatement } from '../db/database.ts'

export interface MemoryClaim {
  readonly subscription: number
  /** Fresh and random: whoever has another one writes nothing more. */
  readonly token: number
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

/** Makes a queue this process's own, unless another one has it. */
export async function claimMemory(
  db: Database,
  { subscription, token, worker }: MemoryClaim,
): Promise<ClaimedMemory | MemoryHolder> {
  const values = [subscription, token, worker, memoryHeldMs]
  const [row] = await db.once<[checkpoint: number, crashes: number]>(claimStatement(db), values, {})
  if (row !== undefined) return { checkpoint: row[0], crashes: row[1] }
  const [holder] = await db.once<[worker: string | null, ms: number]>(
    holderStatement(db),
    [subscription, memoryHeldMs],
    {},
  )
  return { worker: holder?.[0] ?? '', heldForMs: holder?.[1] ?? 0 }
}

/** Keeps it for as long again; false: another has it. */
export async function renewMemory(db: Database, { subscription, token }: MemoryClaim): Promise<boolean> {
  return (await db.once(renewStatement(db), [subscription, token, memoryHeldMs], {})).length > 0
}

/** Another may have it at once. */
export async function releaseMemory(db: Database, { subscription, token }: MemoryClaim): Promise<void> {
  await db.once(releaseStatement(db), [subscription, token], {})
}

const claimStatement = defineStatement(
  'claim_memory',
  `insert into __schema__.memory_queues as q (subscription, token, worker, held_until)
  values ($1, $2, $3, __schema__.clock() + $4 * interval '1 ms')
  on conflict (subscription) do update
  set token = excluded.token, worker = excluded.worker, held_until = excluded.held_until,
    crashes = case when q.token is null then 0 else q.crashes + 1 end
  where q.token is null or q.held_until <= __schema__.clock()
  returning q.checkpoint, q.crashes`,
)

/** A claim that lasts for longer than any was made before the clock was set back: its holder has to renew it. */
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
  set token = null, worker = null, held_until = null, crashes = 0
  where q.subscription = $1 and q.token = $2`,
)
