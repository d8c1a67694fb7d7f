/** No acknowledged event is lost, and none runs twice while its lease holds, however often workers are killed. */
import { setTimeout as delay } from 'node:timers/promises'
import { judge, tally } from '../support/checker.js'
import { judgeLeases, watchLeases } from '../support/leases.js'
import { publishUntil } from '../support/publishing.js'
import { createRandom } from '../support/random.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld, sweepOften } from '../support/world.js'

const workersMax = 3
const leaseMs = 1_000

/** @type {import('../support/scenario.js').Scenario} */
export async function run({ connection, seed, secs }) {
  const world = await openWorld({ connection, name: 'kill' })
  const stopSweeping = sweepOften(world.hub)
  try {
    const random = createRandom(seed)
    await watchLeases(world)
    const start = () => world.startWorker(workerConfig(seed))
    const workers = Array.from({ length: workersMax }, start)
    await Promise.all(workers)
    const endsAt = monotonicUs() + secs * 1e6
    const publishing = publishUntil(endsAt, world, {
      type: 'crash.kill',
      random: createRandom(seed + 1),
      keys: 16,
    })
    const deaths = []
    let killsHit = 0
    while (monotonicUs() < endsAt) {
      await delay(random.integer(100, 600))
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
    const renewals = countRenewals(history, leases.expiries)
    return {
      counts: {
        published: published.length,
        kills: deaths.length,
        killsThatHitALease: killsHit,
        ...tally(history),
        slow: renewals.slow,
        starved: renewals.starved,
        leases: leases.leases,
        takenBack: leases.expiries.length,
      },
      violations: [
        ...judge(history, { published, deaths, expiries: leases.expiries, subscriptions: ['killed'] }),
        ...leases.violations,
        ...(renewals.starved > renewals.slow / 2 ? ['leases are not renewed while handlers run'] : []),
        ...(await judgeAudit(world)),
      ],
    }
  } finally {
    await stopSweeping()
    await world.close()
  }
}

function workerConfig(seed) {
  const options = {
    name: 'killed',
    concurrency: 8,
    leaseMs,
    retry: { baseMs: 20, maxMs: 20, failuresMax: 1000 },
  }
  // Some take longer than a lease: only heartbeats keep those from running twice.
  const behaviour = { kind: 'mixed', msMax: 60, slowShare: 0.01, slowMs: 1_300, failShare: 0.05 }
  return { seed, handlers: [{ pattern: 'crash.kill', options, behaviour }] }
}

/** Handlers that outlast a lease need it renewed; a machine that is overloaded may fail some of them, not most. */
function countRenewals(history, expiries) {
  const begins = new Map()
  let slow = 0
  let starved = 0
  for (const { kind, pid, no, id, at } of history) {
    if (kind === 'begin') begins.set(`${pid} ${no}`, at)
    if (kind !== 'end') continue
    const from = begins.get(`${pid} ${no}`)
    if (at - from < leaseMs * 1000) continue
    slow++
    const ended = expiries.some(
      (expiry) => expiry.delivery === `killed ${id}` && expiry.at > from && expiry.at < at,
    )
    if (ended) starved++
  }
  return { slow, starved }
}

/** The audit says the same: one completion of each. */
async function judgeAudit(world) {
  const rows = await world.query(`
    select e.id, count(a.id)::int as completions
    from __schema__.events e
    left join __schema__.audit a on a.event_id = e.id and a.settlement = 'completed'
    group by e.id having count(a.id) <> 1 limit 5`)
  return rows.map(({ id, completions }) => `audit: event ${id} has ${completions} completions`)
}
