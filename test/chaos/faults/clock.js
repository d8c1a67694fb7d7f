/** The database's clock, which all processes go by, is set forward and back. */
import { setTimeout as delay } from 'node:timers/promises'

const hourMs = 3_600_000

/** It stays as it is set: a later step goes from there. One of five is of an hour. */
export async function stepClock(world, random, { sign, during }) {
  const isLarge = random.chance(0.2)
  const sizeMs = isLarge ? hourMs : random.pick([random.integer(100, 900), random.integer(2_000, 20_000)])
  await step(world, sign * sizeMs, during)
  // What waits for a moment waits an hour longer: mostly that ends soon, so that the run goes on.
  if (!isLarge || sign > 0 || random.chance(0.3)) return
  await delay(random.integer(2_000, 8_000))
  await step(world, hourMs, during)
}

const step = (world, stepMs, during) =>
  during(stepMs > 0 ? 'clock.forward' : 'clock.back', { stepMs }, () => moveClock(world, stepMs))

/** Every session sees another time at once: the one SQL function that all statements ask is replaced. */
export async function moveClock(world, stepMs) {
  const offsetMs = world.clockOffsetMs + stepMs
  await world.persist(
    `create or replace function __schema__.clock() returns timestamptz language sql stable
    as 'select statement_timestamp() + interval ''${offsetMs} ms'''`,
  )
  world.clockOffsetMs = offsetMs
  world.clockOffsetMsMax = Math.max(world.clockOffsetMsMax, offsetMs)
}
