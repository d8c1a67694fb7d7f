/** Limits over the whole fleet hold with two processes: at once, at once per concurrency key, and per second. */
import { judge, tally } from '../support/checker.js'
import { createRandom } from '../support/random.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld } from '../support/world.js'

const maxConcurrency = 5
const keyConcurrency = 2
const concurrencyKeys = 3
const ratePerSecond = 40
const subscriptions = ['at-once', 'per-key', 'per-second', 'both']

/** @type {import('../support/scenario.js').Scenario} */
export async function run({ connection, seed, secs }) {
  const world = await openWorld({ connection, name: 'limits' })
  try {
    const random = createRandom(seed)
    const workers = await Promise.all([1, 2].map(() => world.startWorker(workerConfig(seed))))
    const events = Array.from({ length: Math.ceil(secs * ratePerSecond) }, () => ({
      type: 'crash.limit',
      payload: {},
      concurrencyKey: `c${random.integer(1, concurrencyKeys)}`,
      ...(random.chance(0.3) ? { orderingKey: `k${random.integer(1, 6)}` } : {}),
    }))
    const beganAt = monotonicUs()
    const answers = await world.hub.publishMany(events)
    const published = answers.map(({ id }, place) => {
      return { id, key: events[place].orderingKey ?? null, beganAt, ackedAt: monotonicUs(), batch: 1, place }
    })
    await world.untilEmpty(15_000)
    await Promise.all(workers.map((worker) => worker.stop()))
    return report(world.history(), published)
  } finally {
    await world.close()
  }
}

function workerConfig(seed) {
  const handler = (name, limits) => ({
    pattern: 'crash.limit',
    options: { name, concurrency: 20, leaseMs: 30_000, ...limits },
    behaviour: { kind: 'mixed', msMax: 30 },
  })
  return {
    seed,
    handlers: [
      handler('at-once', { maxConcurrency }),
      handler('per-key', { keyConcurrency }),
      handler('per-second', { ratePerSecond }),
      handler('both', { maxConcurrency, keyConcurrency }),
    ],
  }
}

function report(history, published) {
  const of = (name) => history.filter(({ subscription }) => subscription === name)
  const atOnce = mostAtOnce(of('at-once'), () => 'all')
  const perKey = mostAtOnce(of('per-key'), ({ concurrencyKey }) => concurrencyKey)
  const both = mostAtOnce(of('both'), () => 'all')
  const bothPerKey = mostAtOnce(of('both'), ({ concurrencyKey }) => concurrencyKey)
  const begins = of('per-second').filter(({ kind }) => kind === 'begin')
  const perSecond = mostWithin(begins, 1)
  const workersThatDid = new Set(begins.map(({ pid }) => pid)).size
  const violations = judge(history, { published, subscriptions })
  if (atOnce > maxConcurrency) violations.push(`${atOnce} at once, where ${maxConcurrency} may`)
  if (perKey > keyConcurrency) violations.push(`${perKey} at once per key, where ${keyConcurrency} may`)
  if (both > maxConcurrency)
    violations.push(`${both} at once, where ${maxConcurrency} may and keys are limited`)
  if (bothPerKey > keyConcurrency) violations.push(`${bothPerKey} at once per key, where both are limited`)
  for (const seconds of [1, 2, 3]) {
    const most = mostWithin(begins, seconds)
    // The bucket holds a second's worth, and what was leased may begin a moment later than it was.
    const allowed = ratePerSecond * (seconds + 1) + burstSlack
    if (most > allowed) violations.push(`${most} began within ${seconds} s, where ${allowed} may`)
  }
  return {
    counts: {
      published: published.length,
      processes: workersThatDid,
      mostAtOnce: atOnce,
      mostAtOncePerKey: perKey,
      mostAtOnceOfBoth: both,
      mostWithinASecond: perSecond,
      ...tally(history),
    },
    violations,
  }
}

const burstSlack = 4

function mostAtOnce(records, groupOf) {
  const running = new Map()
  let most = 0
  for (const record of records) {
    const group = groupOf(record)
    const step = record.kind === 'begin' ? 1 : record.kind === 'end' ? -1 : 0
    running.set(group, (running.get(group) ?? 0) + step)
    most = Math.max(most, running.get(group))
  }
  return most
}

function mostWithin(begins, seconds) {
  let most = 0
  for (let from = 0, to = 0; to < begins.length; to++) {
    while (begins[to].at - begins[from].at > seconds * 1e6) from++
    most = Math.max(most, to - from + 1)
  }
  return most
}
