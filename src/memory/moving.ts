import { setTimeout as delay } from 'node:timers/promises'
import { releaseMemory } from '../operations/claim-memory.ts'
import { moveQueue, type OpeningOptions } from './opening.ts'
import type { Persister } from './persister.ts'
import type { MemoryQueue } from './queue.ts'

export interface MovingOptions {
  readonly persister: Persister
  /** For the claim of the next try, which has a token of its own. */
  readonly opening: () => OpeningOptions
  /** What its storage asks for by now; nothing: another process has it. */
  readonly next: () => 'move' | 'reopen' | 'nothing'
  readonly reopen: () => Promise<void>
  readonly trouble: (error: unknown, doing: string) => void
}

/** How long a queue that is to be kept in the database waits for what is under way. */
const graceMs = 3_000
const lookMs = 20
const retryMs = 250
const retryMsMax = 5_000

/**
 * Moves a queue that this process has to the database. A move that fails is tried again until it succeeds: meanwhile this
 * process leases nothing of the queue from the database, because the lanes in memory go first.
 */
export async function moveAway(queue: MemoryQueue, options: MovingOptions): Promise<void> {
  const { opening, next, reopen, trouble } = options
  const { leaving } = opening()
  await untilNothingIsOut(queue)
  for (let tries = 0; !leaving.aborted; tries++) {
    try {
      await handOver(queue, options)
      if (next() === 'move') await moveQueue(queue.subscription, opening())
      // Somebody has set its storage back meanwhile: without an owner it would take nothing more.
      if (next() === 'reopen') await reopen()
      return
    } catch (error) {
      trouble(error, 'moving a memory queue to the database')
    }
    const waitMs = Math.min(retryMs * 2 ** tries, retryMsMax)
    await delay(waitMs, undefined, { signal: leaving }).catch(() => undefined)
  }
}

/** What is under way is not moved along, or it would be attempted twice at once. A handler that hangs is not waited for. */
async function untilNothingIsOut(queue: MemoryQueue): Promise<void> {
  const deadline = performance.now() + graceMs
  while (queue.figures.leased > 0 && performance.now() < deadline) await delay(lookMs)
}

/** Persists the whole queue and ends its claim: from now on a handler that hangs completes nothing in its own transaction. */
async function handOver(queue: MemoryQueue, { persister, opening }: MovingOptions): Promise<void> {
  if (!queue.isLost) {
    await persister.checkpoint('stop')
    await persister.settled()
    queue.hold.lose()
  }
  const { db, claim } = opening()
  await releaseMemory(db, { ...claim, token: queue.token })
}
