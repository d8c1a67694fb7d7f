import { setTimeout as delay } from 'node:timers/promises'
import { monotonicUs } from './recorder.js'

/**
 * Publishes until the time given, or until the function given says so: one by one and in batches, half of it on one of `keys` keys. Each publish is
 * acknowledged before the next begins, so the order of every lane is known.
 * @returns {Promise<import('./checker.js').Publication[]>} with those whose fate is unknown
 */
export async function publishUntil(
  end,
  world,
  { type, random, keys, keyed = 0.5, pauseMs = 15, batchMax = 12 },
) {
  const published = []
  const sequences = new Map()
  let batch = 0
  const isOver = typeof end === 'function' ? end : () => monotonicUs() >= end
  while (!isOver()) {
    batch++
    const events = Array.from({ length: random.integer(1, batchMax) }, () => {
      const key = random.chance(keyed) ? `k${random.integer(1, keys)}` : null
      const sequence = (sequences.get(key) ?? 0) + 1
      sequences.set(key, sequence)
      return { type, payload: { sequence, batch }, ...(key === null ? {} : { orderingKey: key }) }
    })
    const beganAt = monotonicUs()
    const answers = await publishAll(world.hub, events)
    const ackedAt = answers === null ? null : monotonicUs()
    for (const [place, event] of events.entries()) {
      published.push({
        id: answers?.[place].id ?? null,
        key: event.orderingKey ?? null,
        beganAt,
        ackedAt,
        batch,
        place,
      })
    }
    await delay(random.next() * pauseMs)
  }
  return published
}

/** @returns null when the answer did not come, so that nobody knows */
async function publishAll(hub, events) {
  try {
    return events.length === 1 ? [await hub.publish(events[0])] : await hub.publishMany(events)
  } catch (error) {
    if (error.code === 'COMMIT_UNKNOWN' || error.code === 'DATABASE_UNAVAILABLE') return null
    throw error
  }
}
