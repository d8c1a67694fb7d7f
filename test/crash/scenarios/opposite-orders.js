/**
 * Publishers that hold transactions open on the same many keys, in opposite orders, wait for nobody: neither
 * for each other nor for settlements, of which some are parts of open transactions themselves.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { judge, tally } from '../support/checker.js'
import { createRandom } from '../support/random.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld } from '../support/world.js'

const keys = Array.from({ length: 20 }, (_, n) => `k${n}`)
const publishersMax = 12
const subscriptions = ['plain', 'ledger']

/** @type {import('../support/scenario.js').Scenario} */
export async function run({ connection, seed, secs }) {
  const world = await openWorld({ connection, name: 'orders' })
  try {
    await world.query('create table __schema__.ledger (event_id bigint not null, pid int not null)')
    const workers = await Promise.all([1, 2].map(() => world.startWorker(workerConfig(seed))))
    const endsAt = monotonicUs() + secs * 1e6
    const result = { published: [], transactions: 0, refused: [], slowestMs: 0 }
    const publishers = Array.from({ length: publishersMax }, (_, n) =>
      publishUntil(endsAt, world, {
        result,
        random: createRandom(seed * 100 + n),
        reversed: n % 2 === 1,
        no: n,
      }),
    )
    await Promise.all(publishers)
    await world.untilEmpty(15_000)
    await Promise.all(workers.map((worker) => worker.stop()))
    const history = world.history()
    const deadlocks = await countDeadlocks(world)
    return {
      counts: {
        published: result.published.length,
        transactions: result.transactions,
        slowestPublishMs: result.slowestMs,
        deadlocks,
        ...tally(history),
      },
      violations: [
        ...judge(history, { published: result.published, subscriptions }),
        ...result.refused,
        ...(deadlocks > 0 ? [`the server counted ${deadlocks} deadlocks`] : []),
      ],
    }
  } finally {
    await world.close()
  }
}

function workerConfig(seed) {
  const shared = { concurrency: 10, leaseMs: 30_000, retry: { baseMs: 10, maxMs: 10 } }
  return {
    seed,
    handlers: [
      {
        pattern: 'crash.orders',
        options: { ...shared, name: 'plain' },
        behaviour: { kind: 'mixed', msMax: 5 },
      },
      {
        pattern: 'crash.orders',
        options: { ...shared, name: 'ledger' },
        behaviour: { kind: 'ledger', msMax: 5 },
      },
    ],
  }
}

async function publishUntil(endsAt, world, { result, random, reversed, no }) {
  const order = reversed ? keys.toReversed() : keys
  for (let round = 0; monotonicUs() < endsAt; round++) {
    const client = await world.pool.connect()
    try {
      await client.query('begin')
      const published = []
      for (const key of order) {
        const beganAt = monotonicUs()
        const event = { type: 'crash.orders', payload: {}, orderingKey: key }
        const { id } = await world.hub.publish(event, { tx: client })
        // Whoever waits for another's lock waits as long as the other holds its transaction.
        result.slowestMs = Math.max(result.slowestMs, Math.round((monotonicUs() - beganAt) / 1000))
        published.push({ id, key, beganAt, batch: no * 1_000_000 + round, place: published.length })
        if (random.chance(0.2)) await delay(random.integer(1, 30))
      }
      await client.query('commit')
      const ackedAt = monotonicUs()
      result.transactions++
      for (const publication of published) result.published.push({ ...publication, ackedAt })
    } catch (error) {
      await client.query('rollback')
      result.refused.push(`a publish failed: ${error.code} ${error.message}`)
    } finally {
      client.release()
    }
  }
}

/** The server's own count: also of those that the library would quietly try again. */
async function countDeadlocks(world) {
  await delay(1_100) // its statistics are a second behind
  const [row] = await world.query(
    'select deadlocks::int as deadlocks from pg_stat_database where datname = current_database()',
  )
  return row.deadlocks
}
