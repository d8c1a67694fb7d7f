import type { Database } from '../db/database.ts'
import {
  forgetMemory,
  listMemory,
  type MemoryAdoption,
  type MemoryToken,
  movePortion,
  type PlacedEvent,
} from '../operations/move-memory.ts'

/** How many events one transaction moves, unless a lane is longer: nothing is admitted while their runs are written. */
const eventsMax = 1_000

/** Moves what is under way, together with all else of its lanes. False: another has the queue. */
export async function moveUnderWay(
  db: Database,
  queue: MemoryToken,
  adoption: MemoryAdoption,
): Promise<boolean> {
  const events = await listMemory(db, queue)
  const adopted = new Set(adoption.ids)
  const ids = lanesOf(events)
    .filter((lane) => lane.some((id) => adopted.has(id)))
    .flat()
  const left = events.length - ids.length
  return (await movePortion(db, { ...queue, ids, left, rowsMax: eventsMax, adoption })) !== undefined
}

/**
 * Moves what a queue had in memory to the durable tables, in portions of whole lanes, and forgets the queue. How many
 * deliveries that were; undefined: another has the queue meanwhile, and with it the rest.
 */
export async function moveLanes(db: Database, queue: MemoryToken): Promise<number | undefined> {
  const events = await listMemory(db, queue)
  let left = events.length
  let moved = 0
  for (const ids of portionsOfLanes(events)) {
    left -= ids.length
    const count = await movePortion(db, { ...queue, ids, left, rowsMax: eventsMax })
    if (count === undefined) return undefined
    moved += count
  }
  return (await forgetMemory(db, queue)) ? moved : undefined
}

/** A lane that does not fit begins the next portion. */
function portionsOfLanes(events: readonly PlacedEvent[]): number[][] {
  const portions: number[][] = []
  for (const lane of lanesOf(events)) {
    const last = portions.at(-1)
    if (last === undefined || last.length + lane.length > eventsMax) portions.push(lane)
    else for (const id of lane) last.push(id)
  }
  return portions
}

/** By their oldest events. What has no lane is one of its own. */
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
