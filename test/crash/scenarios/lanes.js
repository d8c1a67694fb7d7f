/**
 * Strict order per lane through failures, snoozes, burials, kills, batches and several processes: the next of a
 * lane begins only after the one before it is settled, and only the head is ever repeated.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { judge, tally } from '../support/checker.js'
import { judgeLeases, watchLeases } from '../support/leases.js'
import { publishUntil } from '../support/publishing.js'
import { createRandom } from '../support/random.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld, sweepOften } from '../support/world.js'

const keys = 64
const workersMax = 2

/** @type {import('../support/scenario.js').Scenario} */
export async function run({ connection, seed, secs }) {
  const world = await openWorld({ connection, name: 'lanes' })
  const stopSweeping = sweepOften(world.hub)
  try {
    const random = createRandom(seed)
    await watchLeases(world)
    const start = () => world.startWorker(workerConfig(seed))
    const workers = Array.from({ length: workersMax }, start)
    await Promise.all(workers)
    const endsAt = monotonicUs() + secs * 1e6
    const load = {
      type: 'crash.lane',
      random: createRandom(seed + 1),
      keys,
      keyed: 1,
      batchMax: 40,
      pauseMs: 60,
    }
    const publishing = publishUntil(endsAt, world, load)
    const deaths = []
    let killsHit = 0
    while (monotonicUs() < endsAt) {
      await delay(random.integer(400, 1_200))
      const at = random.integer(0, workersMax - 1)
      const worker = await workers[at]
      await world.untilHolding(worker.name)
      deaths.push({ pid: worker.pid, at: await worker.kill() })
      if ((await world.heldBy(worker.name)) > 0) killsHit++
      workers[at] = start()
    }
    const published = await publishing
    await world.untilEmpty(15_000)
    await Promise.all(workers.map(async (worker) => (await worker).stop()))
    const history = world.history()
    const leases = await judgeLeases(world)
    return {
      counts: {
        published: published.length,
        lanes: new Set(published.map(({ key }) => key)).size,
        lanesOfSeveralProcesses: countShared(history),
        kills: deaths.length,
        killsThatHitALease: killsHit,
        ...tally(history),
        snoozed: history.filter(({ kind, outcome }) => kind === 'end' && outcome === 'snooze').length,
        buried: history.filter(({ kind, outcome }) => kind === 'end' && outcome === 'bury').length,
      },
      violations: [
        ...judge(history, { published, deaths, expiries: leases.expiries, subscriptions: ['lanes'] }),
        ...leases.violations,
      ],
    }
  } finally {
    await stopSweeping()
    await world.close()
  }
}

function workerConfig(seed) {
  const options = {
    name: 'lanes',
    concurrency: 16,
    leaseMs: 1_000,
    retry: { baseMs: 5, maxMs: 20, failuresMax: 1000 },
  }
  const behaviour = { kind: 'mixed', msMax: 15, failShare: 0.2, snoozeShare: 0.05, buryShare: 0.02 }
  return { seed, handlers: [{ pattern: 'crash.lane', options, behaviour }] }
}

/** Lanes that more than one process has worked on: without them order would be easy to keep. */
function countShared(history) {
  const pids = new Map()
  for (const { kind, key, pid } of history) {
    if (kind === 'begin') pids.set(key, (pids.get(key) ?? new Set()).add(pid))
  }
  return [...pids.values()].filter((set) => set.size > 1).length
}
