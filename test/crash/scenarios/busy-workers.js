/**
 * A handler that blocks its process past the lease: its late settlement is refused if another ran the delivery,
 * and accepted if nobody did. Never are both counted.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { judge, tally } from '../support/checker.js'
import { judgeLeases, watchLeases } from '../support/leases.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld, sweepOften } from '../support/world.js'

const leaseMs = 1_000

/** @type {import('../support/scenario.js').Scenario} */
export async function run({ connection, seed, secs }) {
  const alone = await block({ connection, seed, secs: secs / 2, rivals: 'none' })
  const together = await block({ connection, seed, secs: secs / 2, rivals: 'one' })
  return {
    counts: {
      published: alone.published + together.published,
      acceptedLateWhileAlone: alone.acceptedLate,
      refusedWhileTogether: together.refused,
      takenBackWhileAlone: alone.takenBack,
      takenBackWhileTogether: together.takenBack,
      ...together.tally,
    },
    violations: [
      ...alone.violations,
      ...together.violations,
      ...(alone.refused > 0 ? [`refused for nothing: ${alone.refused} that nobody else had leased`] : []),
    ],
  }
}

async function block({ connection, seed, secs, rivals }) {
  const world = await openWorld({ connection, name: 'busy' })
  const stopSweeping = sweepOften(world.hub, 50)
  try {
    await watchLeases(world)
    const workers = await Promise.all(
      (rivals === 'none' ? [1] : [1, 2]).map(() => world.startWorker(workerConfig(seed))),
    )
    const published = []
    const endsAt = monotonicUs() + secs * 1e6
    do {
      const beganAt = monotonicUs()
      const { id } = await world.hub.publish({ type: 'crash.busy', payload: {}, orderingKey: 'lane' })
      published.push({ id, key: 'lane', beganAt, ackedAt: monotonicUs() })
      await untilRecorded(world, id, ['begin'])
      // Nobody can lease from a paused subscription, not even the worker itself.
      if (rivals === 'none') await setStatus(world, 'paused')
      await untilRecorded(world, id, ['settled', 'lost'])
      if (rivals === 'none') await setStatus(world, 'active')
    } while (monotonicUs() < endsAt)
    await world.untilEmpty(15_000)
    await Promise.all(workers.map((worker) => worker.stop()))
    return await report(world, published)
  } finally {
    await stopSweeping()
    await world.close()
  }
}

async function untilRecorded(world, id, kinds) {
  const deadline = monotonicUs() + 20e6
  while (!world.history().some((record) => record.id === id && kinds.includes(record.kind))) {
    if (monotonicUs() > deadline) throw new Error(`Event ${id} has no ${kinds.join(' or ')} after 20 s`)
    await delay(20)
  }
}

function setStatus(world, status) {
  return world.query(`update __schema__.subscriptions set status = $1 where name = 'busy'`, [status])
}

function workerConfig(seed) {
  const options = {
    name: 'busy',
    concurrency: 1,
    leaseMs,
    retry: { baseMs: 10, maxMs: 10, failuresMax: 1000 },
  }
  return {
    seed,
    handlers: [{ pattern: 'crash.busy', options, behaviour: { kind: 'busy', ms: 2 * leaseMs } }],
  }
}

async function report(world, published) {
  const history = world.history()
  const leases = await judgeLeases(world)
  const blocked = history.filter(({ kind, attempt }) => kind === 'begin' && attempt === 1)
  const rows = await world.query(`
    select a.event_id::int as id, count(*) filter (where a.settlement = 'completed')::int as completions
    from __schema__.audit a group by 1`)
  const refused = new Set(history.filter(({ kind }) => kind === 'lost').map(({ id }) => id))
  return {
    published: published.length,
    tally: tally(history),
    takenBack: leases.expiries.length,
    refused: refused.size,
    // Its lease was taken back meanwhile, and it counts all the same.
    acceptedLate: blocked.filter(({ id }) => !refused.has(id)).length,
    violations: [
      ...judge(history, {
        published,
        subscriptions: ['busy'],
        freezes: blocked.map(({ pid, at }) => ({ pid, from: at })),
      }),
      ...leases.violations,
      ...rows
        .filter(({ completions }) => completions !== 1)
        .map((row) => `completions: ${JSON.stringify(row)}`),
    ],
  }
}
