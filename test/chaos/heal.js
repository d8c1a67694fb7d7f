/** All faults end and all processes are up; then everything drains by itself, whatever was done before. */
import { setTimeout as delay } from 'node:timers/promises'
import { monotonicUs } from '../crash/support/recorder.js'
import { moveClock } from './faults/clock.js'
import { drainMsMax, probedMsMax, standstillMsMax } from './limits.js'
import { resumeSubscriber } from './operations/changing.js'
import { pollAll } from './operations/polling.js'
import { configureAsUsual, resume } from './operations/queueing.js'
import { hookNames } from './topology.js'
import { learnSubscribers } from './world.js'

/** Nothing is mended but what we have broken ourselves: limits stay, and an endpoint that is suspended must be probed. */
export async function heal(world) {
  world.record('heal')
  world.state.calm = true
  for (const slot of world.slots) {
    slot.proxy.heal()
    if (slot.isFrozen) slot.signal('SIGCONT')
  }
  for (const slot of world.slots) await slot.up()
  for (const slot of world.slots.filter(({ role }) => !role.startsWith('server'))) await slot.command('calm')
  await learnSubscribers(world)
  for (const name of world.state.halted) await resume(world, world.random, name)
  for (const name of world.state.configured) await configureAsUsual(world, world.random, name)
  const { json } = await world.insist({ method: 'GET', path: '/subscribers?limit=100' })
  for (const { name, status } of json.subscribers)
    if (world.state.paused.has(name) && status === 'paused') await resumeSubscriber(world, world.random, name)
}

/** Waits until nothing is owed any more. What stands still for long is a violation, and says where it stands. */
export async function untilDrained(world, { standstillMs = standstillMsMax } = {}) {
  const startedAt = monotonicUs()
  const movements = new Map()
  let listedNoneAt
  for (;;) {
    await unblockLanes(world)
    await resumeGone(world)
    await pollAll(world)
    const left = await leftOver(world)
    if (left.length === 0) {
      listedNoneAt ??= monotonicUs()
      const isToldWrong = monotonicUs() > listedNoneAt + toldMsMax * 1_000
      if (isToldWrong || (await areEmpty(world)))
        return { violations: [], ms: (monotonicUs() - startedAt) / 1_000 }
      await delay(100)
      continue
    }
    listedNoneAt = undefined
    const stuck = await withoutPatient(world, left)
    if (stuck.length === 0) await catchUp(world)
    const standing = standingOf(movements, stuck, standstillMs)
    if (standing.length > 0) return { violations: await describeStanding(world, standing, true) }
    if (monotonicUs() > startedAt + drainMsMax * 1_000)
      return { violations: await describeStanding(world, left, false) }
    await delay(400)
  }
}

/** By subscription: those of which nothing was begun or settled for too long. */
function standingOf(movements, left, standstillMs) {
  const now = monotonicUs()
  for (const name of movements.keys())
    if (!left.some(({ subscriber }) => subscriber === name)) movements.delete(name)
  return [...new Set(left.map(({ subscriber }) => subscriber))].flatMap((name) => {
    const own = left.filter(({ subscriber }) => subscriber === name)
    const progress = `${own.length} ${own.map(({ id, attempt_count: attempts }) => `${id}${attempts}`).slice(0, 50)}`
    const known = movements.get(name)
    if (known?.progress !== progress) movements.set(name, { progress, movedAt: now })
    // An endpoint that could not be reached is tried again within a minute or so.
    const limitMs = hookNames.includes(name) ? Math.max(standstillMs, probedMsMax) : standstillMs
    return now > movements.get(name).movedAt + limitMs * 1_000 ? own : []
  })
}

const farMs = 10_000

/**
 * While the clock is behind what it once was, some deliveries wait for a moment that is far away, and others wait for those:
 * in their lane, for their key, or for a place within a limit.
 */
async function withoutPatient(world, left) {
  if (world.clockOffsetMs > world.clockOffsetMsMax - farMs) return left
  const farAt = world.nowMs() + farMs
  // A delivery whose publisher has set its moment does not tell it: it was set by a clock that was ahead.
  const delayed = await world.query('select id::int from __schema__.events where run_at > $1', [
    new Date(farAt),
  ])
  const delayedIds = new Set(delayed.map(({ id }) => id))
  const isPatient = ({ status, event_id: id, next_try_at: at, created_at: createdAt }) =>
    status === 'delivering' || delayedIds.has(id) || Date.parse(at ?? createdAt) > farAt
  const patient = left.filter(isPatient)
  const { json } = await world.insist({ method: 'GET', path: '/subscribers?limit=100' })
  const limited = json.subscribers
    .filter((one) => one.max_concurrency !== null || one.key_concurrency !== null)
    .map(({ name }) => name)
  const keys = keysById(world)
  const waitsFor = new Set(patient.flatMap((one) => namesOf(one, keys)))
  return left.filter(
    (one) =>
      !isPatient(one) &&
      !namesOf(one, keys).some((name) => waitsFor.has(name)) &&
      !(limited.includes(one.subscriber) && patient.some(({ subscriber }) => subscriber === one.subscriber)),
  )
}

/** All that may have made somebody wait for it. */
const namesOf = ({ subscriber, event_id: id }, keys) =>
  (keys.get(id) ?? []).map((key) => `${subscriber} ${key}`)

function keysById(world) {
  const keys = new Map()
  const events = new Map()
  for (const { kind, op, events: given, answers } of world.history()) {
    if (kind === 'invoke' && given !== undefined) events.set(op, given)
    if (kind !== 'answer' || answers === undefined) continue
    for (const [place, { key, p }] of (events.get(op) ?? []).entries())
      if (answers[place]?.id !== undefined)
        keys.set(
          answers[place].id,
          [key, `p ${p}`].filter((one) => one !== undefined),
        )
  }
  return keys
}

/** Everything else is done: now the moment comes that the rest waits for. */
async function catchUp(world) {
  const stepMs = world.clockOffsetMsMax - world.clockOffsetMs
  world.record('fault', { fault: 'clock.forward', stepMs, phase: 'begins' })
  await moveClock(world, stepMs)
  world.record('fault', { fault: 'clock.forward', stepMs, phase: 'ends' })
}

/** A depth that stays wrong for so long is for the rule of counters. */
const toldMsMax = 10_000

/**
 * The lists are read one after the other, and a delivery that is leased or fails meanwhile may be in none of them. Depths are
 * all of one moment.
 */
async function areEmpty(world) {
  const { json, type } = await world.ask(world.random, { method: 'GET', path: '/queues?limit=100&events=0' })
  return type === 'ok' && json.queues.every(({ depth }) => depth === 0)
}

async function leftOver(world) {
  const left = []
  for (const status of ['delivering', 'failed', 'pending']) {
    let cursor
    do {
      const query = `status=${status}&limit=500${cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`}`
      const { json, type } = await world.ask(world.random, { method: 'GET', path: `/deliveries?${query}` })
      if (type !== 'ok') return [{ id: 'no answer', status }]
      left.push(...json.deliveries)
      cursor = json.next_cursor
    } while (cursor !== undefined && left.length < 500)
  }
  return left
}

/** A receiver may answer 410 to what was held up until now: that pauses its subscriber, and we resume it. */
async function resumeGone(world) {
  const { json } = await world.ask(world.random, { method: 'GET', path: '/subscribers?limit=100' })
  const paused = (json?.subscribers ?? []).filter(
    ({ name, status }) => status === 'paused' && hookNames.includes(name),
  )
  if (paused.length === 0) return
  const gone = new Set(
    world
      .history()
      .filter(({ kind, outcome }) => kind === 'end' && outcome === 'gone')
      .map(({ s }) => s),
  )
  for (const { name } of paused) if (gone.has(name)) await resumeSubscriber(world, world.random, name)
}

async function unblockLanes(world) {
  for (const [name, id] of world.subscriberIds) {
    const { json } = await world.ask(world.random, {
      method: 'GET',
      path: `/subscribers/${id}/lanes?status=blocked&limit=200`,
    })
    for (const { ordering_key: key, head_event_id: head } of json?.lanes ?? []) {
      const decide = (verb) =>
        world.operate(`lane.${verb}`, { touches: `lane ${verb}`, s: name, key, ids: [head] }, () =>
          world.ask(world.random, { path: `/subscribers/${id}/lanes/${encodeURIComponent(key)}/${verb}` }),
        )
      const { type } = await decide('retry')
      // A head that was purged is never delivered again.
      if (type === 'fail') await decide('skip')
    }
  }
}

const shownMax = 12

/** By subscription: what waits, and what the database says of it, for whoever mends it. */
async function describeStanding(world, left, isStanding) {
  const violations = []
  for (const name of new Set(left.map(({ subscriber }) => subscriber))) {
    const members = left.filter(({ subscriber }) => subscriber === name)
    const ids = members.map(({ event_id: id }) => id)
    const runs = await world.query(
      `select r.state, r.event_ids[1:3] as ids, r.ordering_key as key, r.concurrency_key as ckey, r.due_at, r.leased_until
      from __schema__.runs r join __schema__.subscriptions s on s.no = r.subscription where s.name = $1 and r.event_ids && $2::bigint[] limit ${shownMax}`,
      [name, ids],
    )
    const lanes = await world.query(
      `select q.ordering_key as key, count(*)::int as chunks, min(q.event_ids[1])::int as first
      from __schema__.lane_queue q join __schema__.subscriptions s on s.no = q.subscription
      where s.name = $1 and not exists (select 1 from __schema__.runs r where r.subscription = q.subscription and r.ordering_key = q.ordering_key)
      group by 1 limit ${shownMax}`,
      [name],
    )
    const why = isStanding ? 'nothing moves' : 'not drained in time'
    if (lanes.length > 0)
      violations.push({
        rule: 'asleep',
        s: name,
        id: lanes[0].first,
        text: `${name}: ${lanes.length} lanes or more have something waiting and nothing out (${why}), such as ${JSON.stringify(lanes.slice(0, 3))}`,
      })
    const gated = runs.filter(({ state }) => state === 'gated')
    if (gated.length > 0)
      violations.push({
        rule: 'stranded',
        s: name,
        id: Number(gated[0].ids[0]),
        text: `${name}: runs are gated and no gate looks at them (${why}), such as ${JSON.stringify(gated.slice(0, 3))}`,
      })
    const others = runs.filter(({ state }) => state !== 'gated')
    if (lanes.length + gated.length === 0 || others.length > 0) {
      violations.push({
        rule: 'live',
        s: name,
        id: ids[0],
        text: `${name}: ${members.length} deliveries wait (${why}), such as event ${ids[0]}: ${JSON.stringify(others.slice(0, 3))}`,
      })
    }
  }
  return violations
}
