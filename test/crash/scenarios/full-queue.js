/**
 * 64 publishers of two processes against a queue that refuses beyond its depth: what is acknowledged is stored, what is
 * refused leaves no trace, and the queue never grows by more than the publishes of a second and those under way.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { createPosthorn } from '../../../dist/index.js'
import { createRandom } from '../support/random.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld } from '../support/world.js'

const depthMax = 500
const publishersMax = 64

/** @param {object} options besides the usual: how many ms of publishes the queue may grow by */
export async function run({ connection, seed, secs, overshootMs = 1_000 }) {
  const world = await openWorld({ connection, name: 'full', options: { upkeep: true } })
  const other = await createPosthorn({ database: connection, schema: world.schema, log: false })
  try {
    await world.hub.queues.configure('work', { maxQueueDepth: depthMax, highWatermark: 400 })
    await Promise.all([world.hub.start(), other.start()])
    const result = { acked: [], refused: 0, warned: 0, taken: 0, deepest: 0 }
    const end = monotonicUs() + secs * 1e6
    // A slow machine fills the queue later.
    const isOver = () => monotonicUs() >= end && (result.refused > 0 || monotonicUs() >= end + 60e6)
    const publishers = Array.from({ length: publishersMax }, (_, no) =>
      publishUntil(isOver, no % 2 === 0 ? world.hub : other, { no, random: createRandom(seed + no), result }),
    )
    const workers = Array.from({ length: 16 }, () => workUntil(isOver, world.hub, result))
    await Promise.all([...publishers, ...workers, watchUntil(isOver, world, result)])
    const { acked, refused, warned, taken, deepest } = result
    const most = depthMax + busiest(acked, overshootMs) + publishersMax * 3
    const violations = await judge(world, result)
    if (deepest > most) violations.push(`the queue was ${deepest} deep, where ${most} is the most`)
    return { counts: { acked: acked.length, refused, warned, taken, deepest, most }, violations }
  } finally {
    await other.stop()
    await world.close()
  }
}

async function publishUntil(isOver, hub, { no, random, result }) {
  for (let n = 0; !isOver(); n++) {
    const event = { title: 'task', tags: 'mail', payload: { no, n } }
    const isBatch = random.chance(0.2)
    const key = random.chance(0.3) ? { idempotencyKey: `${no}-${n}` } : {}
    const call = isBatch
      ? hub.publishMany([event, { ...event, ...key }, { type: 'nobody.wants', payload: 1 }])
      : hub.publish({ ...event, ...key }).then((one) => [one])
    try {
      const answers = await call
      const at = monotonicUs()
      for (const { id } of answers) result.acked.push({ id, at, keyed: 'idempotencyKey' in key })
      if (answers.some(({ backpressure }) => backpressure.length > 0)) result.warned++
    } catch (error) {
      if (error.code !== 'QUEUE_FULL') throw error
      result.refused++
      await delay(random.integer(1, 20))
    }
  }
}

/** Too slow for them. */
async function workUntil(isOver, hub, result) {
  while (!isOver()) {
    const task = await hub.poll()
    if (task === null) continue
    await hub.finalize(task.id)
    result.taken++
  }
}

async function watchUntil(isOver, world, result) {
  while (!isOver()) {
    const [{ depth }] = await world.query('select __schema__.queue_depth(0, 100000)::int as depth')
    result.deepest = Math.max(result.deepest, depth)
    await delay(20)
  }
}

/** The most that were acknowledged within so long. */
function busiest(acked, ms) {
  let first = 0
  let most = 0
  for (const [place, { at }] of acked.entries()) {
    while (acked[first].at < at - ms * 1_000) first++
    most = Math.max(most, place - first + 1)
  }
  return most
}

async function judge(world, { acked }) {
  const [stored] = await world.query(`
    select (select count(*) from __schema__.events)::int as events,
      (select count(*) from __schema__.idempotency_keys)::int as keys`)
  const ids = new Set(acked.map(({ id }) => id))
  const found = []
  if (stored.events !== ids.size)
    found.push(`${stored.events} events are stored, ${ids.size} were acknowledged`)
  const rows = await world.query('select event_id from __schema__.idempotency_keys')
  const strangers = rows.filter((row) => !ids.has(Number(row.event_id)))
  if (strangers.length > 0) found.push(`${strangers.length} keys of refused events were kept`)
  return found
}
