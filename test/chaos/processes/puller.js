/** A process that knows nothing but HTTP: it leases, works, and settles in every way there is. */
import { setTimeout as delay } from 'node:timers/promises'
import { createRandom } from '../../crash/support/random.js'
import { openRecorder } from '../../crash/support/recorder.js'
import { openHttp } from '../http.js'
import { digestOf, elementTexts, memberText } from '../payload-text.js'
import { outcomeOf } from './outcomes.js'
import { watchStalls } from './stalls.js'

const config = JSON.parse(process.argv[2])
const record = openRecorder(config.record)
process.on('disconnect', () => process.exit(3))
process.once('SIGTERM', () => process.exit(0))
watchStalls(record)
const random = createRandom(config.seed + process.pid)
const http = openHttp(config.ports)
let calls = 0
let underWay = 0
let calm = config.calm
let no = 0
let leases = 0
process.on('message', ({ no, command }) => {
  if (command === 'calm') calm = true
  process.send({ no, type: 'ok', value: underWay })
})
process.send('ready')
for (const name of ['pulled', 'work', 'temp', 'pulled']) void pullFor(name)
void hangUpNowAndThen()

function pickServer() {
  return Math.floor(random.next() * config.ports.length)
}

/** One call, which counts as an operation of this process and of the server that it asks. */
async function operate(name, request, at = pickServer()) {
  const op = `${process.pid}-${++calls}`
  record('invoke', { op, name })
  const answer = await http.call(random, { ...request, port: config.ports[at] })
  const { status, sent } = answer
  const type = status === 0 ? (sent ? 'info' : 'fail') : status < 300 ? 'ok' : status >= 500 ? 'info' : 'fail'
  record('answer', { op, name, type, status, roles: [config.role, `server${at}`] })
  return answer
}

async function pullFor(subscription) {
  const worker = `${config.workerId}-${subscription}-${++leases}`
  for (;;) {
    const isMany = calm || random.chance(0.6)
    // After healing, fifty deliveries of one call are worked off one after the other: their lease must last.
    const leaseSecs = calm ? 30 : random.integer(1, 3)
    const invoked = ++leases
    const query = new URLSearchParams({
      worker_id: worker,
      lease: leaseSecs,
      wait: 1,
      ...(subscription === 'work' ? { tags: 'a,b,c,work' } : { subscription }),
      ...(isMany && { limit: calm ? 50 : random.integer(1, 8) }),
    })
    record('lease', { no: invoked, s: subscription })
    const endsAt = performance.now() + leaseSecs * 1000
    const server = pickServer()
    const { status, json, text } = await operate(...leaseCall(query), server)
    if (status === 500) record('server error', { path: '/events/subscribe', json })
    if (status !== 200) {
      if (status !== 204) record('lease unknown', { no: invoked, s: subscription, status })
      if (status !== 204) await delay(random.integer(20, 100))
      continue
    }
    const texts = elementTexts(text)
    const events = (Array.isArray(json) ? json : [json]).map((event, place) => ({
      ...event,
      hash: digestOf(memberText(texts[place], 'payload')),
    }))
    record('leased', {
      no: invoked,
      s: subscription,
      leaseSecs,
      server: `server${server}`,
      events: events.map(({ id, payload, lease_token: token, attempt }) => ({
        id,
        u: payload.u,
        token,
        attempt,
      })),
    })
    underWay++
    await work(worker, subscription, events, endsAt)
    underWay--
  }
}

function leaseCall(query) {
  return random.chance(0.5)
    ? ['pull.lease', { method: 'GET', path: `/events/subscribe?${query}` }]
    : ['pull.leasePost', { path: `/events/subscribe?${query}` }]
}

/** A lease that is made for a client that has gone is handed back uncounted, as far as the server can know. */
async function hangUpNowAndThen() {
  for (;;) {
    await delay(random.integer(100, 700))
    if (calm) return
    const s = random.pick(['pulled', 'temp'])
    const query = new URLSearchParams({
      worker_id: config.workerId,
      subscription: s,
      lease: 1,
      wait: 1,
      limit: 5,
    })
    if (random.chance(0.3)) {
      await operate('pull.head', { method: 'HEAD', path: `/events/subscribe?${query}` })
      continue
    }
    record('lease', { no: ++leases, s })
    // It may have leased something: nobody will ever say.
    record('lease unknown', { no: leases, s, status: 0 })
    await operate('pull.hangUp', { path: `/events/subscribe?${query}`, hangUpMs: random.integer(1, 150) })
  }
}

async function work(worker, s, events, endsAt) {
  if (!calm && random.chance(0.03))
    return record('abandoned', { s, us: events.map(({ payload }) => payload.u) })
  const attempts = []
  for (const event of events) {
    // Too late to begin: somebody else may have it by now.
    if (performance.now() > endsAt) {
      record('abandoned', { s, us: [event.payload.u] })
      continue
    }
    const what = { no: ++no, s, u: event.payload.u, id: event.id, token: event.lease_token }
    const { ordering_key: key, attempt, retry_count: failures, hash } = event
    record('begin', { ...what, key, attempt, failures, hash })
    if (!calm && random.chance(0.1)) await settleCall(worker, what, 'start', {})
    if (!calm && random.chance(0.1))
      await settleCall(worker, what, 'heartbeat', { lease: random.integer(1, 3) })
    const { outcome, ms } = outcomeOf({
      payload: event.payload,
      attempt: event.attempt,
      subscription: s,
      config,
      calm,
    })
    if (!calm) await delay(Math.min(ms, 400))
    const verb = { ok: 'complete', throw: 'fail', crash: 'release', timeout: 'fail' }[outcome] ?? outcome
    attempts.push({ what, verb })
  }
  if (attempts.length === 0) return
  const isTogether =
    calm || attempts.some(({ verb }) => verb === 'snooze' || verb === 'bury') || random.chance(0.4)
  if (isTogether) return settleTogether(worker, attempts)
  for (const { what, verb } of attempts)
    await settleCall(worker, what, verb, verb === 'fail' ? { retry_after_ms: 40 } : {})
}

/** By token mostly, sometimes by the worker's name, as old workers do. Repeated until it is answered. */
async function settleCall(worker, what, verb, more) {
  const claim = random.chance(0.8) ? { lease_token: what.token } : { worker_id: worker }
  const isFinal = verb !== 'start' && verb !== 'heartbeat'
  if (isFinal) record('end', { ...what, outcome: ends[verb] })
  for (let tries = 0; ; tries++) {
    const server = pickServer()
    const byToken = claim.lease_token !== undefined
    record('settle', { ...what, verb, byToken, server: `server${server}` })
    const request = { path: `/events/${what.id}/${verb}`, body: { ...claim, ...more } }
    const { status, json } = await operate(`pull.${verb}`, request, server)
    answered(what, verb, status, json)
    if (![0, 502, 503, 504].includes(status) || tries > 100 || !isFinal) return
    await delay(random.integer(10, 80))
  }
}

async function settleTogether(worker, attempts) {
  for (const { what, verb } of attempts) record('end', { ...what, outcome: ends[verb] })
  const outcomes = attempts.map(({ what, verb }) => ({
    event_id: what.id,
    lease_token: what.token,
    outcome: verb,
    ...(verb === 'fail' && { retry_after_ms: 40 }),
    ...(verb === 'snooze' && { after_ms: 30 }),
    ...(verb === 'bury' && { reason: 'by plan' }),
  }))
  for (let tries = 0; ; tries++) {
    const at = pickServer()
    const server = `server${at}`
    for (const { what, verb } of attempts) record('settle', { ...what, verb, byToken: true, server })
    const request = { path: '/events/settle', body: { worker_id: worker, outcomes } }
    const { status, json } = await operate('pull.settle', request, at)
    for (const [place, { what, verb }] of attempts.entries()) {
      answered(
        what,
        verb,
        status === 200 ? json.results[place].status : status,
        status === 200 ? json.results[place] : json,
      )
    }
    if (![0, 502, 503, 504].includes(status) || tries > 100) return
    await delay(random.integer(10, 80))
  }
}

const ends = { complete: 'ok', fail: 'throw', release: 'released', snooze: 'snooze', bury: 'bury' }

function answered(what, verb, status, json) {
  if (status === 500) record('server error', { path: `settle ${verb}`, json })
  // 400 to a fail says that it was the last one allowed: it is recorded all the same.
  const isOk = status === 200 || (status === 400 && verb === 'fail')
  record(isOk ? 'settle ok' : status === 409 ? 'settle refused' : 'settle unknown', {
    ...what,
    verb,
    status,
    isLast: status === 400,
  })
}
