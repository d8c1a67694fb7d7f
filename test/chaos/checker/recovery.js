/** What a process had under way when it was killed comes again soon, and what is published to a healthy hub begins at once. */
import { hookNames, passing, remote } from '../topology.js'
import { effectEndOf, isTouched, mayHaveBeenLeased, mayHaveExpired } from './excuses.js'
import { coveredUs, union } from './spans.js'

const secondUs = 1_000_000
/** The longest lease that a delivery may have, where it is not that of handlers and webhooks. */
const leaseSecs = { memory: 20, pulled: 3, temp: 3, work: 3, client: 3 }
const leaseUsOf = (s) => (leaseSecs[s] ?? 4) * secondUs
const pulled = ['pulled', 'temp', 'work', 'client']
/** From the end of the lease until somebody begins: the lease is noticed, counted as a failure, waited for and leased anew. */
const recoverUs = 6 * secondUs

/** What ends a delivery, and what makes one that has ended come again: until then it waits for nobody but the operator. */
const ends = new Set(['bury', 'cancel', 'discard', 'lane skip', 'lane discard'])
const revives = new Set(['redrive', 'replay', 'retry', 'lane retry'])
const failuresMax = 4

export function findLateRecoveries(model) {
  const held = heldByKilled(model)
  const trials = trialsOf(held)
  return held.flatMap(({ delivery, holder, diedAt, next }) => {
    const { s, id } = delivery
    const times = [diedAt - leaseUsOf(s), next.begunAt]
    const lateUs = next.begunAt - diedAt - leaseUsOf(s) - recoverUs
    if (lateUs <= 0 || lateUs <= hinderedUs(model, { delivery, holder, times, trials })) return []
    if (mayHaveEnded(model, delivery, { next, times }) || wasAway(model, s, times)) return []
    const secs = ((next.begunAt - diedAt) / secondUs).toFixed(1)
    const text = `${s} event ${id} began again ${secs} s after ${holder} was killed with it, for a lease of ${leaseUsOf(s) / secondUs} s`
    return [{ rule: 'recovery', s, id, text }]
  })
}

/** Deliveries that a process had under way when it was killed, with the attempt that follows. */
function heldByKilled(model) {
  const killedAt = new Map(
    model.deaths.filter(({ signal }) => signal === 'SIGKILL').map(({ pid, at }) => [pid, at]),
  )
  return [...model.deliveries.values()].flatMap((delivery) => {
    const { s, attempts } = delivery
    // Nobody polls that queue but now and then.
    if (s === 'polled') return []
    return attempts.flatMap((attempt, place) => {
      const next = attempts[place + 1]
      const holder = hookNames.includes(s) ? attempt.by : attempt.pid
      const diedAt = killedAt.get(holder)
      const isHeld = next !== undefined && diedAt !== undefined && wasUnderWay(attempt, diedAt)
      return isHeld ? [{ delivery, holder, diedAt, next }] : []
    })
  })
}

/** By an operator, by its time, or because the failure was the last one allowed; in each case an operator has revived it. */
function mayHaveEnded(model, delivery, { next, times }) {
  if (isTouched(model, delivery, ends, times)) return true
  if (!isTouched(model, delivery, revives, times)) return false
  const publication = model.publications.get(model.uidById.get(delivery.id))
  if (publication === undefined || mayHaveExpired(model, publication, next.begunAt)) return true
  const allowed = Math.min(publication.maxRetries ?? failuresMax, failuresMax)
  const failed = delivery.attempts.filter(
    ({ begunAt, outcome }) => begunAt < next.begunAt && outcome !== 'ok',
  )
  return failed.length >= allowed || mayHaveBeenLeased(model, publication, delivery)
}

/** What was out when its process vanished may have ended it: a process tries one such delivery at a time, the others wait. */
const trialsOf = (held) =>
  held.filter(({ delivery }) => !remote.includes(delivery.s)).map(({ next }) => turnOf(next))

/** A receiver may end what it was sent after the server that sent it is gone; any other attempt ends with its process. */
function wasUnderWay({ s, begunAt, endedAt, lostAt, isSettled }, at) {
  if (isSettled || lostAt !== undefined || begunAt > at) return false
  return endedAt === null || (hookNames.includes(s) && endedAt > at)
}

/**
 * For how long nobody could begin it: the database or all of its consumers were away, its queue stood, the clock went back,
 * older ones of the queue or others that were out with a dead process came first, or the consumer that leased it next had
 * trouble as well. Upkeep notices a large step of the clock and shortens what waits: such a step costs no more than a lease.
 */
function hinderedUs(model, { delivery: { s, id }, holder, times, trials }) {
  const [from, to] = times
  const backUs = model.steps
    .filter(({ at, stepMs }) => stepMs < 0 && at >= from && at <= to)
    .reduce((sum, { stepMs }) => sum + Math.min(-stepMs * 1_000, leaseUsOf(s) + recoverUs), 0)
  const spans = [
    ...[...model.outages, ...pausesOf(model, s), ...(remote.includes(s) ? [] : trials)],
    ...[...eldersOf(model, { s, id }), ...kindsOf(s).flatMap((kind) => absencesOf(model, kind))],
    // A pull worker waits for whichever server it has asked.
    ...(pulled.includes(s)
      ? placesOf(model, 'server').flatMap(([, lives]) => unwellTimes(model, lives))
      : []),
  ]
  return backUs + nextTroubleUs(model, { s, holder, times }) + coveredUs(union(spans), times)
}

/**
 * A queue is worked off by age. A worker of the client may also have had an older one without beginning it: it marks what was
 * out with a dead process as begun, and hands that back if the answer takes too long.
 */
const eldersOf = (model, { s, id }) =>
  [...model.deliveries.values()]
    .filter((one) => one.s === s && one.id < id)
    .flatMap(({ name, attempts }) => [
      ...attempts.map(turnOf),
      ...(model.carries.get(name) ?? []).map((at) => turnOf({ begunAt: at, endedAt: at })),
    ])

/** While an attempt lasts and until its successor is leased. */
const turnOf = ({ begunAt, endedAt }) => ({ from: begunAt, to: (endedAt ?? begunAt) + turnUs })
const turnUs = secondUs

/** Between a pause that may have been done and the answer to the next resume. */
function pausesOf(model, s) {
  model.pausesBy ??= new Map()
  if (model.pausesBy.has(s)) return model.pausesBy.get(s)
  const own = [...model.operations.values()].filter((one) => one.s === s && one.change !== undefined)
  const resumes = own.filter(({ change, type }) => change === 'resume' && type === 'ok')
  const until = (at) =>
    Math.min(
      ...resumes.filter(({ invokedAt }) => invokedAt >= at).map(({ answeredAt }) => answeredAt + secondUs),
    )
  // An endpoint that says that it is gone is paused as well.
  const gone = [...model.deliveries.values()]
    .filter((one) => one.s === s)
    .flatMap(({ attempts }) => attempts.filter(({ outcome }) => outcome === 'gone'))
  const pauses = [
    ...own
      .filter(({ change, type }) => change === 'pause' && type !== 'fail')
      .map((one) => ({ from: one.invokedAt, to: Math.max(until(one.invokedAt), effectEndOf(one)) })),
    ...gone.map(({ endedAt }) => ({ from: endedAt, to: until(endedAt) })),
  ]
  model.pausesBy.set(s, pauses)
  return pauses
}

/** Processes without which it cannot begin. */
function kindsOf(s) {
  if (hookNames.includes(s)) return ['server', 'receiver']
  if (pulled.includes(s)) return [s === 'client' ? 'client' : 'puller', 'server']
  return [s === 'memory' ? 'memory' : 'worker']
}

/** When all processes of a kind were dead or in trouble. */
function absencesOf(model, kind) {
  model.absences ??= new Map()
  if (!model.absences.has(kind)) {
    const each = placesOf(model, kind).map(([, lives]) => unwellTimes(model, lives))
    model.absences.set(kind, each.length === 0 ? [] : each.reduce(both))
  }
  return model.absences.get(kind)
}

const placesOf = ({ lives }, kind) => [...lives].filter(([role]) => role.startsWith(kind))

/** One more process may die or stand still with it, and then its lease must end too. */
function nextTroubleUs(model, { s, holder, times: [leasedAt, to] }) {
  const diedAt = leasedAt + leaseUsOf(s)
  const others = placesOf(model, kindsOf(s)[0]).filter(([role]) => role !== model.roles.get(holder))
  const later = others
    .flatMap(([, lives]) => unwellTimes(model, lives))
    .filter((one) => one.from < one.to && one.from >= diedAt && one.from < to)
  return Math.max(0, ...later.map((one) => Math.min(one.to, to) - one.from + leaseUsOf(s)))
}

/** Between the lives of the processes in one place, each of which has a successor until the run ends, and while one is in trouble. */
function unwellTimes(model, lives) {
  const between = lives.map(({ from }, place) => ({ from: lives[place - 1]?.to ?? 0, to: from }))
  return union([
    ...between,
    ...lives.flatMap(({ pid }) => model.troubles.get(pid) ?? []).filter(({ isLong }) => isLong),
  ])
}

/** Where the one list of spans and the other overlap. */
const both = (some, others) =>
  union(
    some.flatMap((one) =>
      others
        .map((other) => ({ from: Math.max(one.from, other.from), to: Math.min(one.to, other.to) }))
        .filter(({ from, to }) => from < to),
    ),
  )

/** It was deleted meanwhile, or is given to others by new options. */
const wasAway = (model, s, [from, to]) =>
  passing.includes(s) &&
  (model.changesBy.get(s) ?? []).some(
    (one) => (one.deletes || one.creates) && one.invokedAt < to && effectEndOf(one) > from,
  )

const startUsMax = 2 * secondUs
/** One of a hundred may take longer. */
const lateShare = 0.01

/** Probes are published when everything has healed and drained: see probing.js. */
export function findLateStarts(model) {
  const probes = [...model.publications.values()].filter((one) => one.isProbe && one.fate === 'acked')
  const stalls = union(model.stalls)
  const delays = new Map()
  for (const { ids, type, ackedAt } of probes) {
    const [id] = ids
    const s = type.split('.')[0]
    const begunAt = model.deliveries.get(`${s} ${id}`)?.attempts[0]?.begunAt
    // One that never begins is for the rules of loss and of liveness.
    if (begunAt === undefined) continue
    const us = begunAt - ackedAt - coveredUs(stalls, [ackedAt, begunAt])
    delays.set(s, [...(delays.get(s) ?? []), { id, us }])
  }
  return [...delays].flatMap(([s, own]) => {
    const late = own.filter(({ us }) => us > startUsMax).sort((a, b) => b.us - a.us)
    if (late.length <= own.length * lateShare) return []
    const [{ id, us }] = late
    const text = `${late.length} of ${own.length} probes of ${s} began more than 2 s after they were published, such as event ${id} after ${Math.round(us / 1_000)} ms`
    return [{ rule: 'late start', s, id, text }]
  })
}
