import { setTimeout as delay } from 'node:timers/promises'
import type { Database } from '../db/database.ts'
import { isLocked } from '../db/failure.ts'
import { decideSettlement } from '../domain/settlement.ts'
import type { Subscription } from '../domain/subscription.ts'
import { PosthornError } from '../errors.ts'
import {
  claimLeftMemory,
  claimMemory,
  type MemoryClaim,
  type MemoryHolder,
  memoryHeldMs,
  releaseMemory,
  renewMemory,
} from './claim-memory.ts'
import type { Entry } from './entry.ts'
import { type LoadedDelivery, loadMemory } from './load-memory.ts'
import { MemoryQueue, type MemoryQueueOptions } from './memory-queue.ts'
import { keepWhile, moveLanes } from './move-lanes.ts'
import { beginRecovery, endRecovery } from './recover-memory.ts'

export interface OpeningOptions extends Pick<MemoryQueueOptions, 'now' | 'emptied'> {
  readonly db: Database
  readonly claim: MemoryClaim
  /** Aborted when this process wants no queue any more. */
  readonly leaving: AbortSignal
}

/** What a start has made of a queue. */
export interface Opened {
  readonly queue: MemoryQueue
  readonly recovered: number
  /** Entries that have ended a process once too often. */
  readonly exhausted: readonly Entry[]
}

const claimEveryMs = 100
/** Somewhat longer than the claim of a process that has vanished lasts. */
const claimMsMax = memoryHeldMs + 1_000
/** A process that lives moves its queue itself, which takes a while if the queue is long. */
const movedMsMax = 30_000
const pageLimits = { rowsMax: 2_000, charsMax: 16 * 2 ** 20 }
/** If this many holders in a row have vanished, their deliveries are suspects, and are tried one by one. */
const crashesMax = 2

export interface Patience {
  /** How long to wait for a process that has the queue. */
  readonly waitMsMax: number
  /** How long nobody must have had the queue. */
  readonly vacantMs: number
}

/** Claims a queue, and loads what was unsettled when it was last persisted. */
export async function openQueue(
  subscription: Subscription,
  options: OpeningOptions,
  patience: Patience = { waitMsMax: claimMsMax, vacantMs: 0 },
): Promise<Opened> {
  const { db, claim, now, emptied } = options
  const claimed = await claimInTime(subscription.name, options, patience.waitMsMax, async () => {
    const claimedAt = performance.now()
    const answer = await claimMemory(db, claim, patience.vacantMs)
    return isHolder(answer) ? answer : { ...answer, claimedAt }
  })
  const { checkpoint, crashes, claimedAt } = claimed
  const queue = new MemoryQueue({ subscription, token: claim.token, checkpoint, claimedAt, now, emptied })
  const recovery = await beginRecovery(db, claim)
  if (recovery === undefined) return { queue, recovered: 0, exhausted: [] }
  const { recovered, exhausted } = await load(queue, options, crashes >= crashesMax)
  await endRecovery(db, recovery, recovered)
  return { queue, recovered, exhausted }
}

/** Moves what a queue had in memory to the durable tables, which keep it from now on. Another process may have done so before. */
export async function moveQueue(
  subscription: { readonly name: string },
  options: OpeningOptions,
  waitMsMax = movedMsMax,
): Promise<number> {
  const { db, claim, leaving } = options
  const deadline = performance.now() + waitMsMax
  const claimLeft = () => claimLeftMemory(db, claim)
  if ((await claimInTime(subscription.name, options, waitMsMax, claimLeft)) === 'gone') return 0
  const waits = () => !leaving.aborted && performance.now() < deadline
  try {
    const moved = await keepWhile(db, claim, () => moveLanes(db, { ...claim, waits }))
    if (moved === undefined) throw takenMeanwhile(subscription.name)
    return moved
  } catch (error) {
    // So that the next process need not wait for the end of this claim. Without the database the claim ends by itself.
    await releaseMemory(db, claim).catch(() => undefined)
    // A transaction that completes an event of the queue is open: so a process still works on it.
    throw isLocked(error) ? takenMeanwhile(subscription.name) : error
  }
}

/** Waits for the process that has the queue to vanish or to release it. */
async function claimInTime<Claimed>(
  queue: string,
  { leaving }: OpeningOptions,
  waitMsMax: number,
  tryToClaim: () => Promise<Claimed | MemoryHolder>,
): Promise<Claimed> {
  const deadline = performance.now() + waitMsMax
  for (;;) {
    const answer = await tryToClaim()
    if (!isHolder(answer)) return answer
    if (leaving.aborted || performance.now() > deadline)
      throw new PosthornError('QUEUE_TAKEN', { queue, ...answer })
    await delay(claimEveryMs)
  }
}

/** False: another process has the queue. */
export async function unlessTaken(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work()
    return true
  } catch (error) {
    if (error instanceof PosthornError && error.code === 'QUEUE_TAKEN') return false
    throw error
  }
}

function isHolder(answer: unknown): answer is MemoryHolder {
  return typeof answer === 'object' && answer !== null && 'heldForMs' in answer
}

function takenMeanwhile(queue: string): PosthornError {
  return new PosthornError('QUEUE_TAKEN', { queue, worker: 'another', heldForMs: memoryHeldMs })
}

async function load(
  queue: MemoryQueue,
  { db, claim, now }: OpeningOptions,
  isSuspect: boolean,
): Promise<{ recovered: number; exhausted: Entry[] }> {
  const exhausted: Entry[] = []
  let recovered = 0
  for (let after = 0; ; ) {
    const page = await loadMemory(db, { ...claim, after, ...pageLimits })
    for (const loaded of page) {
      const { entry, isExhausted } = restore(queue, loaded, now(), isSuspect)
      if (isExhausted) exhausted.push(entry)
    }
    const last = page.at(-1)
    if (last === undefined) return { recovered, exhausted }
    recovered += page.length
    // Loading may take longer than a claim lasts.
    const renewedAt = performance.now()
    if (!(await renewMemory(db, claim))) throw takenMeanwhile(queue.subscription.name)
    queue.hold.kept(renewedAt)
    after = last.event.id
  }
}

/** A delivery that was marked as begun when its process vanished is charged for that. */
function restore(queue: MemoryQueue, loaded: LoadedDelivery, nowMs: number, isSuspect: boolean) {
  const { event, laneKey, isBegun, dueAfterMs } = loaded
  const policy = { failures: loaded.failures, retry: queue.subscription.retry, maxRetries: null }
  const charge = isBegun ? decideSettlement(policy, { kind: 'lease_expired' }, 0) : undefined
  const isCharged = charge?.kind === 'retry' || charge?.kind === 'bury'
  const entry = queue.restore(
    { event, laneKey },
    {
      attempts: isBegun ? loaded.attempts + 1 : loaded.attempts,
      failures: isCharged ? charge.failures : loaded.failures,
      dueAtMs: dueAfterMs === null ? null : nowMs + dueAfterMs,
      lastError: isCharged ? charge.reason : loaded.lastError,
      isSuspect: isSuspect || isBegun,
    },
  )
  if (isBegun) queue.ledger.changed(entry)
  return { entry, isExhausted: charge?.kind === 'bury' }
}
