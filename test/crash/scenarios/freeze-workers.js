/**
 * A worker that is frozen past its lease and goes on counts for nothing: another has run its deliveries, its
 * late settlements are refused, and what it did in a transaction is rolled back.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { judge, tally } from '../support/checker.js'
import { judgeLeases, watchLeases } from '../support/leases.js'
import { createRandom } from '../support/random.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld, sweepOften } from '../support/world.js'

const leaseMs = 1_000
const batch = 12

/** @type {import('../support/scenario.js').Scenario} */
export async function run({ connection, seed, secs }) {
  const world = await openWorld({ connection, name: 'freeze' })
  await world.query('create table __schema__.ledger (event_id bigint not null, pid int not null)')
  await watchLeases(world)
  const stopSweeping = sweepOften(world.hub)
  try {
    const random = createRandom(seed)
    const workers = await Promise.all([1, 2].map(() => world.startWorker(workerConfig(seed))))
    const published = []
    const freezes = []
    const endsAt = monotonicUs() + secs * 1e6
    while (monotonicUs() < endsAt) {
      published.push(...(await publishBatch(world, freezes.length)))
      await delay(random.integer(20, 120))
      freezes.push(await freeze(world, random.pick(workers)))
    }
    freezes.push(...(await freezeInTransaction(world, published)))
    await world.untilEmpty(15_000)
    await Promise.all(workers.map((worker) => worker.stop()))
    return await report(world, { published, freezes: freezes.flat() })
  } finally {
    await stopSweeping()
    await world.close()
  }
}

function workerConfig(seed) {
  const shared = { concurrency: 6, leaseMs, retry: { baseMs: 10, maxMs: 10, failuresMax: 1000 } }
  return {
    seed,
    handlers: [
      {
        pattern: 'crash.plain',
        options: { ...shared, name: 'plain' },
        behaviour: { kind: 'mixed', msMax: 150 },
      },
      {
        pattern: 'crash.ledger',
        options: { ...shared, name: 'ledger' },
        behaviour: { kind: 'ledger', msMax: 150 },
      },
    ],
  }
}

async function publishBatch({ hub }, no, freeze = false) {
  const events = Array.from({ length: batch }, (_, n) => ({
    type: n % 2 === 0 ? 'crash.plain' : 'crash.ledger',
    payload: { sequence: no * batch + n, ...(freeze && n === 1 ? { freeze: true } : {}) },
    ...(n % 4 < 2 ? { orderingKey: `k${n % 3}` } : {}),
  }))
  const beganAt = monotonicUs()
  const answers = await hub.publishMany(events)
  const ackedAt = monotonicUs()
  return answers.map(({ id }, place) => ({
    id,
    key: events[place].orderingKey ?? null,
    type: events[place].type,
    beganAt,
    ackedAt,
    batch: no,
    place,
  }))
}

/** Stops a worker in the midst of its work, until others have taken over all it held. */
async function freeze(world, worker) {
  await world.untilHolding(worker.name)
  const from = monotonicUs()
  worker.signal('SIGSTOP')
  const held = await world.heldBy(worker.name)
  await untilTakenOver(world, worker, 3 * leaseMs)
  worker.signal('SIGCONT')
  return { pid: worker.pid, from, held }
}

/** What sits in an open transaction can't be taken over: then time alone ends the wait. */
async function untilTakenOver(world, { name }, limitMs) {
  const deadline = monotonicUs() + limitMs * 1000
  while (monotonicUs() < deadline) {
    await delay(50)
    if ((await world.heldBy(name)) > 0) continue
    const [{ waiting }] = await world.query(
      `select count(*)::int as waiting from __schema__.runs where suspect`,
    )
    if (waiting === 0) return
  }
}

/** One handler stops its own process between doing its work and settling it: the narrowest place there is. */
async function freezeInTransaction(world, published) {
  published.push(...(await publishBatch(world, 1_000_000, true)))
  const frozen = new Map()
  const deadline = monotonicUs() + 10e6
  // Whoever gets the event next freezes as well, once; all of them are woken in their turn.
  do {
    await delay(50)
    for (const { pid, at } of world.history().filter((record) => record.kind === 'freezes')) {
      if (!frozen.has(pid)) frozen.set(pid, { pid, from: at, held: 1 })
      else if (at + leaseMs * 2_500 < monotonicUs()) process.kill(pid, 'SIGCONT')
    }
  } while (monotonicUs() < deadline && !(await settled(world, published.at(-batch + 1).id)))
  for (const pid of frozen.keys()) process.kill(pid, 'SIGCONT')
  return [...frozen.values()]
}

async function settled(world, id) {
  const rows = await world.query(
    `select 1 from __schema__.audit where event_id = $1 and settlement = 'completed'`,
    [id],
  )
  return rows.length > 0
}

async function report(world, { published, freezes }) {
  const history = world.history()
  const leases = await judgeLeases(world)
  const ledger = await judgeLedger(world, published)
  const lost = history.filter((record) => record.kind === 'lost')
  return {
    counts: {
      published: published.length,
      freezes: freezes.length,
      freezesThatHitALease: freezes.filter(({ held }) => held > 0).length,
      ...tally(history),
      lateSettlementsRefused: lost.filter(({ why }) => why === 'its settlement came too late').length,
      rolledBack: history.filter(({ outcome }) => outcome === 'lease lost').length,
      effects: ledger.effects,
      takenBack: leases.expiries.length,
    },
    violations: [
      ...judge(history, {
        published,
        freezes,
        expiries: leases.expiries,
        subscriptions: [],
        owed: ({ type }) => [type === 'crash.plain' ? 'plain' : 'ledger'],
      }),
      ...judgeLost(history, lost),
      ...leases.violations,
      ...ledger.violations,
    ],
  }
}

/** Whoever is told that its lease is lost was overtaken by another attempt, and not told so for nothing. */
function judgeLost(history, lost) {
  return lost
    .filter(({ why }) => why === 'its settlement came too late')
    .filter(({ id, subscription }) => {
      const isBegin = (record) =>
        record.kind === 'begin' && record.id === id && record.subscription === subscription
      return history.filter(isBegin).length < 2
    })
    .map(({ id, subscription }) => `refused for nothing: ${subscription} ${id}`)
}

/** The ledger has no unique key: only the fence keeps it from having two effects of one event. */
async function judgeLedger(world, published) {
  const rows = await world.query(
    'select event_id::int as id, count(*)::int as effects from __schema__.ledger group by 1',
  )
  const effects = new Map(rows.map(({ id, effects }) => [id, effects]))
  const violations = published
    .filter(({ type }) => type === 'crash.ledger')
    .filter(({ id }) => effects.get(id) !== 1)
    .map(({ id }) => `effects: event ${id} has ${effects.get(id) ?? 0}`)
  return { effects: rows.length, violations }
}
