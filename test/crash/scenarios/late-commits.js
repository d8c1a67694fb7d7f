/**
 * Publishers in long transactions that commit late or roll back: nothing committed is skipped, nothing rolled
 * back is delivered, and what was acknowledged before another's publish began comes first in every lane.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { judge, tally } from '../support/checker.js'
import { createRandom } from '../support/random.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld } from '../support/world.js'

const publishersMax = 24
const keys = 6
const rollbackShare = 0.2

/** @type {import('../support/scenario.js').Scenario} */
export async function run({ connection, seed, secs }) {
  const world = await openWorld({ connection, name: 'late' })
  try {
    await world.query('create table __schema__.orders (no int)')
    // The first half meets workers, the second waits for them: whatever order is kept must be kept in both.
    const worker = await world.startWorker(workerConfig(seed))
    const first = await publishFor(world, { seed, secs: secs / 2 })
    await worker.stop()
    const second = await publishFor(world, { seed: seed + 100, secs: secs / 2, batchBase: 1_000_000 })
    const workers = await Promise.all([1, 2].map(() => world.startWorker(workerConfig(seed))))
    await world.untilEmpty(15_000)
    await Promise.all(workers.map((one) => one.stop()))
    const history = world.history()
    const published = [...first.published, ...second.published]
    return {
      counts: {
        published: published.length,
        transactions: first.commits + second.commits,
        rollbacks: first.rollbacks + second.rollbacks,
        deadlocks: first.deadlocks + second.deadlocks,
        overtaken: countOvertaken(published),
        ...tally(history),
      },
      violations: judge(history, { published, subscriptions: ['late'] }),
    }
  } finally {
    await world.close()
  }
}

function workerConfig(seed) {
  const options = { name: 'late', concurrency: 16, leaseMs: 30_000 }
  return { seed, handlers: [{ pattern: 'crash.late', options, behaviour: { kind: 'mixed', msMax: 4 } }] }
}

async function publishFor(world, { seed, secs, batchBase = 0 }) {
  const endsAt = monotonicUs() + secs * 1e6
  const tally = { published: [], commits: 0, rollbacks: 0, deadlocks: 0, batches: batchBase }
  const publishers = Array.from({ length: publishersMax }, (_, n) =>
    publishUntilEnd(world, tally, endsAt, seed * 1000 + n),
  )
  await Promise.all(publishers)
  return tally
}

async function publishUntilEnd(world, tally, endsAt, seed) {
  const random = createRandom(seed)
  while (monotonicUs() < endsAt) {
    // Most are short, some are held open for long: those are the ones that a cursor over ids would skip.
    const holdMs = random.chance(0.3) ? random.integer(0, 1_000) : random.integer(0, 30)
    const client = await world.pool.connect()
    try {
      await client.query('begin')
      await transact(world, client, { tally, random, holdMs })
    } catch (error) {
      await client.query('rollback')
      if (error.code !== '40P01') throw error
      tally.deadlocks++
    } finally {
      client.release()
    }
  }
}

/** Writes something of its own first, as callers do: its transaction then has a number before it publishes. */
async function transact(world, client, { tally, random, holdMs }) {
  const writesFirst = random.chance(0.7)
  if (writesFirst) {
    await client.query(`insert into ${world.schema}.orders values (1)`)
    await delay(random.next() * holdMs)
  }
  const batch = ++tally.batches
  const published = []
  for (let call = random.integer(1, 4); call > 0; call--) {
    const events = Array.from({ length: random.integer(1, 3) }, () => eventOf(random))
    const beganAt = monotonicUs()
    const answers = await world.hub.publishMany(events, { tx: client })
    for (const [n, { id }] of answers.entries()) {
      published.push({
        id,
        key: events[n].orderingKey ?? null,
        beganAt,
        ackedAt: null,
        batch,
        place: published.length,
      })
    }
    await delay((random.next() * holdMs) / 4)
  }
  await delay(random.next() * holdMs)
  if (random.chance(rollbackShare)) {
    await client.query('rollback')
    tally.rollbacks++
    return
  }
  await client.query('commit')
  const ackedAt = monotonicUs()
  tally.commits++
  for (const publication of published) tally.published.push({ ...publication, ackedAt })
}

function eventOf(random) {
  const keyed = random.chance(0.7)
  return { type: 'crash.late', payload: {}, ...(keyed ? { orderingKey: `k${random.integer(1, keys)}` } : {}) }
}

/** Events that became visible after one with a higher id: what a cursor over ids would have missed. */
function countOvertaken(published) {
  const byCommit = [...published].sort((a, b) => a.ackedAt - b.ackedAt)
  let highest = 0
  let overtaken = 0
  for (const { id } of byCommit) {
    if (id < highest) overtaken++
    highest = Math.max(highest, id)
  }
  return overtaken
}
