/** One event that takes its process down, among many, is the only one that is buried. */
import { judge, tally } from '../support/checker.js'
import { judgeLeases, watchLeases } from '../support/leases.js'
import { createRandom } from '../support/random.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld, sweepOften } from '../support/world.js'

const events = 500
const failuresMax = 3
const crashesMax = 20

/** Lasts until everything is settled, however long that takes. */
export async function run({ connection, seed }) {
  const world = await openWorld({ connection, name: 'poison' })
  await watchLeases(world)
  const stopSweeping = sweepOften(world.hub)
  try {
    await (await world.startWorker(workerConfig())).stop() // the subscription exists from its first start on
    const { published, poisonous } = await publishAll(world, createRandom(seed))
    const deaths = await superviseUntilEmpty(world)
    const history = world.history()
    const leases = await judgeLeases(world)
    const letters = await world.query(
      'select event_id::int as id, failures, reason from __schema__.dead_letters',
    )
    const charged = await world.query(
      `select event_id::int as id, count(*)::int as times from __schema__.audit
      where settlement = 'lease_expired' group by 1`,
    )
    return {
      counts: {
        published: published.length,
        crashes: deaths.length,
        crashesThatHitALease: deaths.filter(({ held }) => held > 0).length,
        buried: letters.length,
        innocentsCharged: charged.filter(({ id }) => !poisonous.has(id)).length,
        ...tally(history),
      },
      violations: [
        ...judge(history, {
          published,
          deaths,
          expiries: leases.expiries,
          subscriptions: ['poisoned'],
          buried: poisonous,
        }),
        ...leases.violations,
        ...letters.filter(({ id }) => !poisonous.has(id)).map(({ id }) => `buried: event ${id} is innocent`),
        ...(letters.some(({ id }) => poisonous.has(id)) ? [] : ['the poisonous event was not buried']),
        ...judgeCharges(history, charged, leases.expiries),
        ...charged.filter(({ times }) => times > failuresMax).map(({ id }) => `charged too often: ${id}`),
      ],
    }
  } finally {
    await stopSweeping()
    await world.close()
  }
}

/** Only what had begun when its lease ended is charged. */
function judgeCharges(history, charged, expiries) {
  const attempts = new Map()
  for (const { kind, pid, no, id, at } of history) {
    if (kind === 'begin') attempts.set(`${pid} ${no}`, { id, from: at, to: Number.POSITIVE_INFINITY })
    if (kind === 'end') attempts.get(`${pid} ${no}`).to = at
  }
  const cutShort = new Set(
    [...attempts.values()]
      .filter(({ id, from, to }) =>
        expiries.some(({ delivery, at }) => delivery.endsWith(` ${id}`) && at > from && at < to),
      )
      .map(({ id }) => id),
  )
  return charged.filter(({ id }) => !cutShort.has(id)).map(({ id }) => `charged: event ${id} had not begun`)
}

function workerConfig() {
  const options = {
    name: 'poisoned',
    concurrency: 20,
    leaseMs: 1_000,
    retry: { baseMs: 10, maxMs: 10, failuresMax },
  }
  return { handlers: [{ pattern: 'crash.poison', options, behaviour: { kind: 'poison', ms: 5 } }] }
}

async function publishAll(world, random) {
  const at = random.integer(0, events - 1)
  const inputs = Array.from({ length: events }, (_, n) => ({
    type: 'crash.poison',
    payload: { sequence: n, ...(n === at ? { poison: true } : {}) },
    ...(n % 4 === 0 ? { orderingKey: `k${n % 16}` } : {}),
  }))
  const beganAt = monotonicUs()
  const answers = await world.hub.publishMany(inputs)
  const ackedAt = monotonicUs()
  const published = answers.map(({ id }, place) => {
    return { id, key: inputs[place].orderingKey ?? null, beganAt, ackedAt, batch: 1, place }
  })
  return { published, poisonous: new Set([answers[at].id]) }
}

/** Starts the worker again whenever it has died. */
async function superviseUntilEmpty(world) {
  const deaths = []
  for (;;) {
    const worker = await world.startWorker(workerConfig())
    const emptied = world.untilEmpty(15_000).then(() => 'empty')
    const what = await Promise.race([emptied, worker.ended])
    if (what === 'empty') {
      await worker.stop()
      return deaths
    }
    deaths.push({ pid: worker.pid, at: lastWordOf(world, worker.pid), held: await world.heldBy(worker.name) })
    if (deaths.length > crashesMax) throw new Error(`The worker has died ${deaths.length} times`)
    emptied.catch(() => undefined)
  }
}

/** It killed itself: what it wrote last was its last moment, near enough. */
function lastWordOf(world, pid) {
  return Math.max(
    ...world
      .history()
      .filter((record) => record.pid === pid)
      .map((record) => record.at),
  )
}
