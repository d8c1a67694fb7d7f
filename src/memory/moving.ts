import { setTimeout as delay } from 'node:timers/promises'
import type { Core } from '../core/core.ts'
import { isLocked } from '../db/failure.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import { newToken } from '../engine/lease-tokens.ts'
import { release } from '../engine/release.ts'
import { type AdoptedRun, findAdopted } from './adopted-memory.ts'
import { Adoption } from './adoption.ts'
import { type MemoryToken, releaseMemory } from './claim-memory.ts'
import type { MemoryDelivery } from './entry.ts'
import type { MemoryQueue } from './memory-queue.ts'
import { keepWhile, type MovedQueue, moveLanes, moveUnderWay } from './move-lanes.ts'
import type { Persister } from './persister.ts'

export interface MovingOptions extends Pick<Core, 'db' | 'worker' | 'trouble'> {
  readonly persister: Persister
  /** Aborted when this process wants no queue any more. */
  readonly leaving: AbortSignal
  /** Takes back what was leased and has not begun. */
  readonly handBack: () => Promise<void>
  /** Runs of the database that were asked for before this moment may not begin. */
  readonly outdate: () => void
  /** Another process has the queue: what is under way here is to stop. */
  readonly lost: () => void
  /** Whether the queue is to be kept in the memory of this process again. */
  readonly isWanted: () => boolean
  readonly reopen: () => Promise<void>
}

interface Move extends MovingOptions {
  readonly underWay: readonly MemoryDelivery[]
  /** The token by which this process leases what is under way. */
  readonly token: number
}

/** How long a queue that is to be kept in the database waits for attempts under way. */
const graceMs = 3_000
const lookMs = 20
const retryMs = 250
const retryMsMax = 1_500

/**
 * Moves a queue that this process has to the database. A move that fails is tried again until it succeeds: meanwhile this
 * process leases nothing of the queue from the database, because the lanes in memory go first.
 */
export async function moveAway(queue: MemoryQueue, options: MovingOptions): Promise<void> {
  await options.handBack()
  await untilNothingIsOut(queue)
  const move = { ...options, underWay: adopt(queue), token: newToken() }
  await keepWhile(options.db, nameOf(queue), () => moveUntilDone(queue, move))
}

async function moveUntilDone(queue: MemoryQueue, move: Move): Promise<void> {
  const { leaving } = move
  for (let tries = 0; !leaving.aborted; tries++) {
    try {
      await tryToMove(queue, move)
      // The storage was set back to memory meanwhile: without an owner the queue would take nothing more.
      if (move.isWanted()) await move.reopen()
      return
    } catch (error) {
      // A transaction that holds the move up is waited for until this process leaves.
      if (!isLocked(error)) move.trouble(error, 'moving a memory queue to the database')
    }
    const waitMs = Math.min(retryMs * 2 ** tries, retryMsMax)
    await delay(waitMs, undefined, { signal: leaving }).catch(() => undefined)
  }
  await letGo(queue, move)
}

/** Most handlers end soon, and then their deliveries need not be moved. Slower ones are not waited for. */
async function untilNothingIsOut(queue: MemoryQueue): Promise<void> {
  const deadline = performance.now() + graceMs
  while (queue.figures.leased > 0 && performance.now() < deadline) await delay(lookMs)
}

/** What is still under way goes on with a run in the database: from now on its settlement waits for that. */
function adopt(queue: MemoryQueue): MemoryDelivery[] {
  const { out } = queue
  for (const { entry } of out) entry.adoption = new Adoption()
  return out
}

/**
 * What is under way is moved first and decided at once, so that its leases are renewed from then on. Each step can be
 * repeated: the answer to the one before may have been lost.
 */
async function tryToMove(queue: MemoryQueue, move: Move): Promise<void> {
  if (!queue.isLost && !queue.isMoving && !(await persistAll(queue, move))) return
  if (!queue.isLost) await moveAttempts(queue, move)
  await decide(queue, move)
  if (!queue.isLost) await moveRest(queue, move)
}

/** Writes the whole queue, which does not change any more. False: the queue need not be moved. */
async function persistAll(queue: MemoryQueue, { db, persister, isWanted, underWay }: Move): Promise<boolean> {
  await persister.checkpoint('stop')
  await persister.settled()
  if (isWanted() && underWay.length === 0) {
    queue.hold.lose()
    await releaseMemory(db, nameOf(queue))
    return false
  }
  queue.isMoving = true
  return true
}

/** Moves what is under way, with the lanes that it is in: there its runs are leased to this process. */
async function moveAttempts(queue: MemoryQueue, move: Move): Promise<void> {
  const { db, leaving, underWay, token, worker } = move
  if (undecided(underWay).length === 0) return
  // A statement of a handler's transaction must have reached the database before its transaction can be waited for.
  await unlessAborted(leaving, Promise.allSettled(underWay.map(({ entry }) => entry.completing)))
  const { leaseMs } = queue.subscription
  const ids = underWay.map(({ event }) => event.id)
  const lease = { ids, token, leaseMs, worker: await worker() }
  if (!(await moveUnderWay(db, movedQueue(queue, move), lease))) move.lost()
}

function nameOf({ subscription, token }: MemoryQueue): MemoryToken {
  return { subscription: subscription.no, token }
}

function movedQueue(queue: MemoryQueue, { leaving }: Move): MovedQueue {
  return { ...nameOf(queue), waits: () => !leaving.aborted }
}

async function unlessAborted(signal: AbortSignal, work: Promise<unknown>): Promise<void> {
  const over = new AbortController()
  const aborted = new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true, signal: over.signal })
    if (signal.aborted) resolve()
  })
  await Promise.race([work, aborted]).finally(() => over.abort())
}

async function decide(queue: MemoryQueue, { db, underWay, token }: Move): Promise<void> {
  const open = undecided(underWay)
  if (open.length === 0) return
  const { runs, completed } = await findAdopted(db, nameOf(queue), token)
  for (const delivery of open) {
    const { entry, event } = delivery
    const run = runs.get(event.id)
    if (completed.has(event.id)) queue.finish(entry, { as: 'completed', executionMs: null })
    const other = completed.has(event.id) ? 'completed' : 'lost'
    entry.adoption?.decide(run === undefined ? other : adoptedRun(delivery, run, token))
  }
}

function undecided(underWay: readonly MemoryDelivery[]): MemoryDelivery[] {
  return underWay.filter(({ entry }) => entry.adoption?.result === undefined)
}

function adoptedRun(delivery: MemoryDelivery, found: AdoptedRun, token: number): LeasedRun {
  const { subscription, laneKey } = delivery.run
  const { runId: id, leasedUntil } = found
  const run: LeasedRun = { id, subscription, token, laneKey, leasedUntil, suspect: false, deliveries: [] }
  run.deliveries.push({ run, event: delivery.event, attempt: delivery.attempt, failures: delivery.failures })
  return run
}

/** Moves what waits, and forgets the queue. */
async function moveRest(queue: MemoryQueue, move: Move): Promise<void> {
  const { db, handBack, outdate } = move
  await moveLanes(db, movedQueue(queue, move))
  queue.hold.lose()
  // A lease that was asked for before the queue closed may have brought runs that the move has made anew.
  outdate()
  await handBack()
}

/** The process stops. Runs that a try has moved without an answer go back uncounted: nobody holds them. */
async function letGo(queue: MemoryQueue, { db, underWay, token, trouble }: Move): Promise<void> {
  const open = undecided(underWay)
  if (open.length === 0) return
  try {
    const { runs } = await findAdopted(db, nameOf(queue), token)
    const found = [...runs.values()].map(({ runId }) => ({ runId, token }))
    if (found.length > 0) await release(db, found)
  } catch (error) {
    trouble(error, 'handing back what a memory queue had under way')
  } finally {
    // Once the move has begun nothing more is written from here: the next process that has the queue begins them again.
    for (const { entry } of open) entry.adoption?.decide(queue.isMoving ? 'lost' : null)
  }
}
