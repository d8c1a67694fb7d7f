/** A worker that is told to stop under load leaves no lease behind, and what it hands back counts no attempt. */
import { setTimeout as delay } from 'node:timers/promises'
import { judge, tally } from '../support/checker.js'
import { publishUntil } from '../support/publishing.js'
import { createRandom } from '../support/random.js'
import { openWorld } from '../support/world.js'

/** @param {object} options besides the usual: `stops` to make, instead of for how long */
export async function run({ connection, seed, secs, stops: stopsMax = Math.ceil(secs) }) {
  const world = await openWorld({ connection, name: 'stop' })
  try {
    const random = createRandom(seed)
    const result = { stops: 0, stopsThatHitALease: 0, handedBack: 0, violations: [] }
    let publishing = true
    let next = await world.startWorker(workerConfig(seed, 0))
    const load = { type: 'crash.stop', random: createRandom(seed + 1), keys: 8, pauseMs: 60 }
    const published = publishUntil(() => !publishing, world, load)
    // Without a delivery that was handed back the run would show nothing.
    const isEnough = () => result.stops >= stopsMax && (result.handedBack > 0 || result.stops >= 5 * stopsMax)
    while (!isEnough()) {
      const starting = world.startWorker(workerConfig(seed, result.stops + 1))
      await stopOne(world, next, { random, result })
      next = await starting
    }
    publishing = false
    const publications = await published
    await world.untilEmpty(15_000)
    await next.stop()
    const history = world.history()
    return {
      counts: { published: publications.length, ...tally(history), ...countsOf(result) },
      violations: [
        ...result.violations,
        ...judge(history, { published: publications, subscriptions: ['stopped'] }),
        ...(await judgeAudit(world, publications.length)),
      ],
    }
  } finally {
    await world.close()
  }
}

function countsOf({ stops, stopsThatHitALease, handedBack }) {
  return { stops, stopsThatHitALease, handedBack }
}

/** Half of them give their handlers time to end, the others none. */
function workerConfig(seed, no) {
  const options = { name: 'stopped', concurrency: 12, leaseMs: 30_000 }
  return {
    seed,
    stop: no % 2 === 0 ? { graceMs: 5_000 } : { graceMs: 0 },
    handlers: [{ pattern: 'crash.stop', options, behaviour: { kind: 'obedient', msMax: 100 } }],
  }
}

async function stopOne(world, worker, { random, result }) {
  await delay(random.integer(100, 500))
  await world.untilHolding(worker.name)
  if ((await world.heldBy(worker.name)) > 0) result.stopsThatHitALease++
  const end = await worker.stop()
  result.stops++
  if (end.code !== 0) result.violations.push(`stop ${result.stops} ended with ${JSON.stringify(end)}`)
  const left = await world.heldBy(worker.name)
  if (left > 0) result.violations.push(`stop ${result.stops} left ${left} deliveries leased`)
  const history = world.history().filter((record) => record.pid === worker.pid)
  result.handedBack += history.filter(
    ({ kind, settlement }) => kind === 'settled' && settlement === 'release',
  ).length
}

/** Every event was completed in its first attempt, and nothing else was counted. */
async function judgeAudit(world, published) {
  const [row] = await world.query(`
    select count(*) filter (where settlement = 'completed')::int as completed,
      count(*) filter (where settlement = 'completed' and attempt <> 1)::int as late,
      count(*) filter (where settlement not in ('completed', 'released'))::int as others,
      count(*) filter (where settlement = 'released')::int as released
    from __schema__.audit`)
  const found = []
  if (row.completed !== published) found.push(`audit: ${row.completed} completed of ${published}`)
  if (row.late > 0) found.push(`audit: ${row.late} were completed in a later attempt than the first`)
  if (row.others > 0) found.push(`audit: ${row.others} records of other kinds`)
  return found
}
