/**
 * A receiver refuses connections for longer than the retries would last, and comes back: nothing is given up, nothing is
 * charged, every lane goes on in its order, and those who send begin slowly.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { moveClock } from '../../../dist/engine/clock.js'
import { judgeLanes, requestsOf } from '../support/lane-judge.js'
import { createRandom } from '../support/random.js'
import { openReceiver, webhookOptions } from '../support/receiver.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld, sweepOften } from '../support/world.js'

const type = 'crash.outage'
const name = 'out'
const retryMs = [200, 200]
/** Failed probes take longer than the whole schedule, each of them. */
const probesMin = 3
/** Two processes with ten each. */
const atOnceMax = 20
const patienceMs = 60_000

/** @type {import('../support/scenario.js').Scenario} */
export async function run({ connection, seed, events = 10_000, keys = 50 }) {
  const options = webhookOptions()
  const world = await openWorld({ connection, name: 'outage', options: { ...options, dispatcher: false } })
  const stopSweeping = sweepOften(world.hub)
  try {
    const clock = openClock(world)
    const receiver = await openReceiver(world, { seed, behaviour: { msMin: 30, msMax: 60 } })
    await receiver.close()
    await receiver.subscribe(name, { type, retryMs, timeoutMs: 1_000, leaseMs: 5_000 })
    const start = () => world.startWorker({ handlers: [], hub: options })
    const [first, second] = await Promise.all([start(), start()])
    const published = await publishAll(world, { events, keys, random: createRandom(seed) })
    await untilSuspended(world, clock)
    const waits = await untilProbed(world, clock)
    await second.kill()
    const third = await start()
    const refused = await countRefused(world)
    await receiver.open()
    await clock.advance((await readEndpoint(world)).probeInMs)
    await world.untilEmpty(20_000)
    const exits = await Promise.all([first.stop(), third.stop()])
    await receiver.stop()
    return await report(world, { published, refused, exits, waits, outageMs: clock.movedMs })
  } finally {
    await stopSweeping()
    await world.close()
  }
}

/** One batch after the other; of ten events one has no key. */
async function publishAll(world, { events, keys, random }) {
  const published = []
  while (published.length < events) {
    const batch = Array.from({ length: Math.min(500, events - published.length) }, () => ({
      type,
      payload: {},
      ...(random.chance(0.9) ? { orderingKey: `k${random.integer(1, keys)}` } : {}),
    }))
    const answers = await world.hub.publishMany(batch)
    published.push(...answers.map(({ id }, place) => ({ id, key: batch[place].orderingKey ?? null })))
  }
  return published
}

/** The one clock, moved only while nothing is leased: so no lease ends before its time. */
function openClock(world) {
  const db = { schema: world.schema, query: (text) => world.pool.query(text) }
  const clock = {
    movedMs: 0,
    async advance(ms) {
      await until(world, async () => (await readEndpoint(world)).leased === 0)
      clock.movedMs += Math.max(0, Math.ceil(ms))
      await moveClock(db, clock.movedMs)
    },
  }
  return clock
}

/** A single event is tried again after five seconds. */
async function untilSuspended(world, clock) {
  await until(world, async () => {
    const { status, ready } = await readEndpoint(world)
    if (status !== 'suspended' && ready === 0) await clock.advance(1_000)
    return status === 'suspended'
  })
}

/**
 * Time passes until so many probes have failed: it is moved to when each is due, and then they have time.
 * @returns {Promise<number[]>} how long it was waited after each
 */
async function untilProbed(world, clock) {
  const waits = []
  await until(world, async () => {
    const { probes, probeInMs, waitMs } = await readEndpoint(world)
    if (probes < waits.length) return false
    waits.push(waitMs)
    if (probes < probesMin) await clock.advance(probeInMs)
    return probes >= probesMin
  })
  return waits
}

async function readEndpoint(world) {
  const [row] = await world.query(`
    select s.status, e.probes, extract(epoch from e.probe_at - __schema__.clock())::float8 * 1000 as "probeInMs",
      extract(epoch from e.probe_at - e.last_error_at)::float8 * 1000 as "waitMs",
      (select count(*) from __schema__.runs r where r.state = 'leased')::int as leased,
      (select count(*) from __schema__.runs r where r.state = 'ready')::int as ready
    from __schema__.endpoints e
    join __schema__.subscriptions s on s.no = e.subscription`)
  return row
}

async function until(world, holds) {
  const endsAt = monotonicUs() + patienceMs * 1000
  while (!(await holds())) {
    if (monotonicUs() > endsAt)
      throw new Error(`Waited in vain: ${JSON.stringify(await readEndpoint(world))}`)
    await delay(20)
  }
}

async function countRefused(world) {
  const [row] = await world.query(
    `select count(*)::int as refused from __schema__.exchanges where error_class = 'refused'`,
  )
  return row.refused
}

async function report(world, { published, refused, exits, waits, outageMs }) {
  const history = world.history()
  const requests = requestsOf(history)
  const ramp = judgeRamp(history)
  return {
    counts: {
      published: published.length,
      outageSecs: Math.round(outageMs / 1000),
      refused,
      requests: requests.length,
      mostAtOnce: ramp.mostAtOnce,
    },
    violations: [
      ...(outageMs > retryMs.reduce((sum, ms) => sum + ms)
        ? []
        : ['the outage was shorter than the schedule']),
      ...exits.filter(({ code }) => code !== 0).map((exit) => `a stop ended with ${JSON.stringify(exit)}`),
      ...judgeLanes(history, { published, subscribers: [name] }),
      ...(requests.length === published.length
        ? []
        : [`${requests.length} requests for ${published.length}`]),
      ...ramp.violations,
      ...judgeWaits(waits),
      ...(await judgeAudit(world, published.length)),
    ],
  }
}

/** The first comes alone. Each that was answered makes room for one more: so they double, and never come all at once. */
function judgeRamp(history) {
  const violations = []
  let [underWay, answered, mostAtOnce] = [0, 0, 0]
  for (const { kind } of history) {
    if (kind === 'answer') {
      underWay--
      answered++
    }
    if (kind !== 'request') continue
    underWay++
    mostAtOnce = Math.max(mostAtOnce, underWay)
    const allowed = Math.min(Math.max(1, answered), atOnceMax)
    if (underWay > allowed) violations.push(`herd: ${underWay} at once, where ${allowed} may`)
  }
  return { mostAtOnce, violations: violations.slice(0, 5) }
}

/** Twice as long after each probe that failed, and up to a tenth more. What had still been under way may fail later than the first. */
function judgeWaits(waits) {
  return waits.flatMap((ms, probes) => {
    const [least, most] = [5_000 * 2 ** probes, 5_500 * 2 ** probes]
    return ms <= most && (ms >= least || probes === 0) ? [] : [`the wait after probe ${probes} was ${ms} ms`]
  })
}

/** Nothing was charged and nothing given up. */
async function judgeAudit(world, published) {
  const [row] = await world.query(`
    select count(*) filter (where settlement = 'completed')::int as completed,
      count(*) filter (where failures > 0)::int as charged,
      count(*) filter (where settlement = 'buried')::int as buried,
      (select count(*) from __schema__.dead_letters)::int as letters
    from __schema__.audit`)
  const found = []
  if (row.completed !== published) found.push(`audit: ${row.completed} completed of ${published}`)
  if (row.charged > 0) found.push(`audit: ${row.charged} attempts were charged`)
  if (row.buried + row.letters > 0) found.push(`audit: ${row.buried} buried, ${row.letters} dead letters`)
  return found
}
