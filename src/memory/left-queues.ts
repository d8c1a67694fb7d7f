import type { Database } from '../db/database.ts'
import { claimLeftMemory, findLeftMemory, type LeftMemory } from './claim-memory.ts'
import { forgetMemory } from './move-memory.ts'
import { moveQueue, type OpeningOptions, unlessTaken } from './opening.ts'

export interface LeftQueuesOptions {
  readonly db: Database
  readonly opening: (subscription: number) => OpeningOptions
  readonly recovered: (name: string, events: number) => void
}

const queuesMax = 10

/**
 * Moves to the durable tables what vanished processes have left of memory queues that are to be kept in the database. Until
 * then nobody can lease anything of such a queue. Any process may do this. True: there may be more.
 */
export async function moveLeftQueues(options: LeftQueuesOptions): Promise<boolean> {
  const left = await findLeftMemory(options.db, queuesMax)
  const errors: unknown[] = []
  for (const one of left) {
    const moving = one.fate === 'move' ? move(one, options) : forget(one, options)
    // A queue that cannot be moved now must not keep the others from being moved.
    await moving.catch((error: unknown) => errors.push(error))
  }
  if (errors.length > 0) throw errors[0]
  return left.length === queuesMax
}

async function move({ subscription, name }: LeftMemory, { opening, recovered }: LeftQueuesOptions) {
  await unlessTaken(async () => {
    const moved = await moveQueue({ name }, opening(subscription), 0)
    if (moved > 0) recovered(name, moved)
  })
}

/** The subscription of the queue has ended. */
async function forget({ subscription }: LeftMemory, { db, opening }: LeftQueuesOptions): Promise<void> {
  const { claim } = opening(subscription)
  if ((await claimLeftMemory(db, claim)) === 'claimed') await forgetMemory(db, claim)
}
