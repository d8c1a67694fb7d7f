import { setTimeout as delay } from 'node:timers/promises'
import { portionsOf } from '../core/portions.ts'
import type { Database } from '../db/database.ts'
import { isLocked } from '../db/failure.ts'
import { type MemoryToken, memoryHeldMs, renewMemory } from './claim-memory.ts'
import {
  forgetMemory,
  listMemory,
  type MemoryAdoption,
  type MovePortion,
  movePortion,
  type PlacedEvent,
} from './move-memory.ts'

/** How many events one transaction moves, unless a lane is longer: nothing is admitted while their runs are written. */
const eventsMax = 1_000
const portion = { itemsMax: eventsMax, sizeMax: eventsMax, sizeOf: (lane: readonly number[]) => lane.length }
const renewMs = 0.3 * memoryHeldMs

/** A queue that the caller has claimed and moves. */
export interface MovedQueue extends MemoryToken {
  /** Whether to go on waiting for a handler's transaction that completes one of its events and is open. */
  readonly waits: () => boolean
}

/**
 * Renews the claim of a queue beside the work of moving it: that may wait for longer than a claim lasts, and what its
 * transactions renew is undone when they fail.
 */
export async function keepWhile<T>(db: Database, queue: MemoryToken, work: () => Promise<T>): Promise<T> {
  const over = new AbortController()
  void keep(db, queue, over.signal)
  return work().finally(() => over.abort())
}

async function keep(db: Database, queue: MemoryToken, signal: AbortSignal): Promise<void> {
  for (;;) {
    await delay(renewMs, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) return
    // If the renewal failed, or another process has the queue, the work itself finds out.
    await renewMemory(db, queue).catch(() => false)
  }
}

/** Moves what is under way, together with the rest of its lanes. False: another process has the queue. */
export async function moveUnderWay(
  db: Database,
  queue: MovedQueue,
  adoption: MemoryAdoption,
): Promise<boolean> {
  const events = await listMemory(db, queue)
  const adopted = new Set(adoption.ids)
  const ids = lanesOf(events)
    .filter((lane) => lane.some((id) => adopted.has(id)))
    .flat()
  const left = events.length - ids.length
  return (await moveInTime(db, queue, { ids, left, adoption })) !== undefined
}

/**
 * Moves what a queue had in memory to the durable tables, in portions of whole lanes, and forgets the queue. Returns how
 * many deliveries; undefined: another process has the queue meanwhile, and with it the rest.
 */
export async function moveLanes(db: Database, queue: MovedQueue): Promise<number | undefined> {
  const events = await listMemory(db, queue)
  let left = events.length
  let moved = 0
  for (const lanes of portionsOf(lanesOf(events), portion)) {
    const ids = lanes.flat()
    left -= ids.length
    const count = await moveInTime(db, queue, { ids, left })
    if (count === undefined) return undefined
    moved += count
  }
  return (await forgetMemory(db, queue)) ? moved : undefined
}

async function moveInTime(
  db: Database,
  { subscription, token, waits }: MovedQueue,
  portion: Pick<MovePortion, 'ids' | 'left' | 'adoption'>,
): Promise<number | undefined> {
  for (;;) {
    try {
      return await movePortion(db, { subscription, token, rowsMax: eventsMax, ...portion })
    } catch (error) {
      if (!isLocked(error) || !waits()) throw error
    }
  }
}

/** Ordered by their oldest events. An event without a key is a lane of its own. */
function lanesOf(events: readonly PlacedEvent[]): number[][] {
  const lanes: number[][] = []
  const keyed = new Map<string, number[]>()
  for (const [id, key] of events) {
    const known = key === null ? undefined : keyed.get(key)
    if (known !== undefined) {
      known.push(id)
      continue
    }
    const lane = [id]
    lanes.push(lane)
    if (key !== null) keyed.set(key, lane)
  }
  return lanes
}
