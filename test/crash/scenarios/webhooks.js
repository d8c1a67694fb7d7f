/**
 * Webhooks to receivers that fail and hang, from dispatchers that are killed and replaced: each lane comes in its order,
 * without a gap that is not declared, one at a time, and nothing is lost.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { judgeLanes, requestsOf } from '../support/lane-judge.js'
import { judgeLeases, watchLeases } from '../support/leases.js'
import { publishUntil } from '../support/publishing.js'
import { createRandom } from '../support/random.js'
import { openReceiver, webhookOptions } from '../support/receiver.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld, sweepOften } from '../support/world.js'

const dispatchersMax = 2
const type = 'crash.webhook'
const timeoutMs = 500
const leaseMs = 2_000
/** Of every second subscriber, over all dispatchers: it is leased in another way. */
const maxConcurrency = 8
/** However slow the machine: fewer would show nothing. */
const killsMin = 2
const killsMax = 1_000
const behaviour = { failShare: 0.3, hangShare: 0.05, msMax: 120 }

/** @type {import('../support/scenario.js').Scenario} */
export async function run({ connection, seed, secs, subscribersMax = 8, keys = 64, pauseMs = 60 }) {
  const options = webhookOptions()
  const world = await openWorld({ connection, name: 'webhooks', options: { ...options, dispatcher: false } })
  const stopSweeping = sweepOften(world.hub)
  try {
    await watchLeases(world)
    const receiver = await openReceiver(world, { seed, behaviour })
    const subscribers = Array.from({ length: subscribersMax }, (_, n) => `s${n + 1}`)
    const policy = { type, timeoutMs, leaseMs, retryMs: [200, 200, 200] }
    for (const [place, name] of subscribers.entries()) {
      await receiver.subscribe(name, place % 2 === 0 ? policy : { ...policy, maxConcurrency })
    }
    // Half of them give their requests time to end when they are told to stop, the others none.
    const graceMs = (no) => (no % 2 === 0 ? 10_000 : 0)
    const start = (no) => world.startWorker({ handlers: [], hub: options, stop: { graceMs: graceMs(no) } })
    const dispatchers = await Promise.all(Array.from({ length: dispatchersMax }, (_, no) => start(no)))
    const endsAt = monotonicUs() + secs * 1e6
    const load = { type, random: createRandom(seed + 1), keys, keyed: 0.95, pauseMs }
    let isHarmed = false
    const publishing = publishUntil(() => isHarmed, world, load)
    const harm = await doHarm(world, { endsAt, dispatchers, start, random: createRandom(seed) })
    isHarmed = true
    const published = await publishing
    await world.untilEmpty(20_000)
    const exits = await Promise.all(dispatchers.map((dispatcher) => dispatcher.stop()))
    await receiver.stop()
    return await report(world, { ...harm, published, subscribers, exits: [...harm.exits, ...exits] })
  } finally {
    await stopSweeping()
    await world.close()
  }
}

/** Kills one after the other, and now and then replaces one that is told to stop. */
async function doHarm(world, { endsAt, dispatchers, start, random }) {
  const harm = { kills: [], stops: [], exits: [], violations: [] }
  let started = dispatchersMax
  const isEnough = () =>
    harm.stops.length > 0 && harm.kills.length >= killsMin && countHits(world, harm.kills) > 0
  while (harm.kills.length < killsMax && (monotonicUs() < endsAt || !isEnough())) {
    await delay(random.integer(500, 1_500))
    const at = random.integer(0, dispatchersMax - 1)
    const dispatcher = dispatchers[at]
    await world.untilHolding(dispatcher.name)
    if (harm.kills.length <= harm.stops.length * 2) {
      harm.kills.push(await dispatcher.kill())
      dispatchers[at] = await start(started++)
      continue
    }
    dispatchers[at] = await start(started++)
    const from = monotonicUs()
    harm.exits.push(await dispatcher.stop())
    harm.stops.push({ from, to: monotonicUs() })
    const left = await world.heldBy(dispatcher.name)
    if (left > 0) harm.violations.push(`stop ${harm.stops.length} left ${left} deliveries leased`)
  }
  return harm
}

async function report(world, { kills, stops, violations, exits, published, subscribers }) {
  const history = world.history()
  const requests = requestsOf(history)
  const leases = await judgeLeases(world)
  const dead = await deadLetters(world)
  const of = (outcome) => requests.filter((request) => request.outcome === outcome).length
  const expiries = [...leases.expiries, ...handedBack(history, stops)]
  const facts = { published, subscribers, dead, expiries, unheard: await unheardAnswers(world) }
  return {
    counts: {
      published: published.length,
      lanes: new Set(
        requests.flatMap(({ subscriber, lane }) => (lane === null ? [] : `${subscriber} ${lane.key}`)),
      ).size,
      lanesOfSeveralProcesses: countShared(history, published),
      kills: kills.length,
      killsThatHitARequest: countHits(world, kills),
      stops: stops.length,
      requests: requests.length,
      ...{ delivered: of('delivered'), failed: of('failed'), closed: of('closed') },
      repeats: requests.filter(({ verdict }) => verdict === 'repeat').length,
      skips: requests.filter(({ lane }) => lane !== null && lane.skipped.length > 0).length,
      deadLetters: dead.size,
      takenBack: leases.expiries.length,
    },
    violations: [
      ...violations,
      ...exits.filter(({ code }) => code !== 0).map((exit) => `a stop ended with ${JSON.stringify(exit)}`),
      ...judgeLanes(history, facts),
      ...subscribers.filter((_, place) => place % 2 === 1).flatMap((name) => findCrowd(requests, name)),
      ...leases.violations,
    ],
  }
}

function countHits(world, kills) {
  const requests = requestsOf(world.history())
  return kills.filter((at) => requests.some((request) => wasCutOff(request, at))).length
}

/** It had come before the kill and was closed by it, long before anybody would have lost patience. */
function wasCutOff({ at, endedAt, outcome }, killedAt) {
  return outcome === 'closed' && at < killedAt && endedAt >= killedAt && endedAt - at < timeoutMs * 800
}

/** A receiver hears that a sender has given up a little later than others may go ahead instead. */
function findCrowd(requests, name) {
  const ends = []
  let most = 0
  for (const { subscriber, at, endedAt, outcome } of requests) {
    if (subscriber !== name) continue
    const underWay = ends.filter((end) => end > at)
    ends.splice(0, ends.length, ...underWay, outcome === 'closed' ? endedAt - closingUs : endedAt)
    most = Math.max(most, ends.length)
  }
  return most > maxConcurrency ? [`${name}: ${most} at once, where ${maxConcurrency} may`] : []
}

const closingUs = 100_000

async function deadLetters(world) {
  const rows = await world.query(
    `select s.name, d.event_id from __schema__.dead_letters d join __schema__.subscriptions s on s.no = d.subscription`,
  )
  return new Set(rows.map(({ name, event_id: id }) => `${name} ${id}`))
}

/** What was on its way when its dispatcher was told to stop at once: an answer may just have been given. */
function handedBack(history, stops) {
  return history
    .filter(({ kind, settlement }) => kind === 'settled' && settlement === 'release')
    .filter(({ at }) => stops.some(({ from, to }) => from <= at && at <= to))
    .map(({ subscription, id, at }) => ({ delivery: `${subscription} ${id}`, at }))
}

/** A receiver that is starved may answer who has just given up; and who dies may have had its last attempt. */
async function unheardAnswers(world) {
  const rows = await world.query(`
    select s.name, x.event_id, x.attempt
    from __schema__.exchanges x
    join __schema__.subscriptions s on s.no = x.subscription
    where x.error_class = 'timeout'
    union all
    select s.name, d.event_id, d.attempts
    from __schema__.dead_letters d
    join __schema__.subscriptions s on s.no = d.subscription
    where d.reason = 'the lease expired'`)
  return new Set(rows.map(({ name, event_id: id, attempt }) => `${name} ${id} ${attempt}`))
}

/** Lanes that more than one process has sent: without them order would be easy to keep. */
function countShared(history, published) {
  const keys = new Map(published.map(({ id, key }) => [id, key]))
  const pids = new Map()
  for (const { kind, subscription, id, pid } of history) {
    if (kind !== 'settled' || keys.get(id) === null) continue
    const lane = `${subscription} ${keys.get(id)}`
    pids.set(lane, (pids.get(lane) ?? new Set()).add(pid))
  }
  return [...pids.values()].filter((set) => set.size > 1).length
}
