/**
 * What can explain an odd record: trouble of the process concerned while it held the lease, or an operation that covers this
 * very delivery and was under way when it changed. Nothing is excused because something happened somewhere.
 */
import { hookNames, remote } from '../topology.js'

const secondUs = 1_000_000
/** The longest lease that a handler or a webhook has. */
const leaseUs = 4 * secondUs
/** A smaller step of the clock ends no lease that is renewed. */
const jumpMs = 1_000
/** A statement whose answer never came may be done later, until its own time limit. */
const lateEffectUs = 15 * secondUs
const promptEffectUs = secondUs / 2

const outage = /^(database\.|promote)/
/** Connections that are cut are made again at once: an answer is lost, and no lease ends. */
const isShort = /^(cut|freeze\.short|slowCommits)/

/** Whose trouble and when, sorted out once. */
export function indexTroubles(model) {
  const troubles = new Map()
  const outages = []
  const jumps = []
  const add = (pid, trouble) => troubles.set(pid, [...(troubles.get(pid) ?? []), trouble])
  for (const { fault, pid, from, to, stepMs } of model.faults) {
    if (outage.test(fault)) outages.push({ from, to })
    else if (fault === 'clock.forward') {
      if (!(stepMs < jumpMs)) jumps.push({ from, to })
    } else if (pid !== undefined) add(pid, { from, to, isLong: !isShort.test(fault) })
  }
  for (const { pid, from, to } of model.stalls) {
    if (pid === 'database') outages.push({ from, to })
    else add(pid, { from, to, isLong: to - from > secondUs })
  }
  for (const { pid, at } of model.deaths) add(pid, { from: at - secondUs, to: at, isLong: true })
  const steps = model.faults
    .filter(({ fault }) => fault.startsWith('clock'))
    .map(({ from, to, stepMs = 0 }) => ({ at: stepMs > 0 ? from : to, stepMs }))
    .sort((a, b) => a.at - b.at)
  Object.assign(model, { troubles, outages, jumps, steps })
}

const meets = (one, from, to) => one.from <= to && one.to >= from

/**
 * Whose trouble can disturb an attempt that began: its own process; of a webhook the server that sent it; of what a worker
 * elsewhere has leased, the servers that were asked to lease, renew or settle it.
 */
export function concerned(model, { s, id, pid, by }) {
  if (!remote.includes(s)) return [pid]
  if (hookNames.includes(s)) return by === undefined ? [pid, ...pidsOf(model, 'server')] : [pid, by]
  const carriers = [...(model.carriers.get(`${s} ${id}`) ?? [])]
  return [pid, ...carriers.flatMap((role) => pidsOf(model, role))]
}

/** The same for attempts of a delivery that nobody saw begin: any server may have leased it, and sent it to a dead receiver. */
export function concernedUnseen(model, attempt) {
  const { s } = attempt
  if (!remote.includes(s)) return concerned(model, attempt)
  const receivers = hookNames.includes(s) ? pidsOf(model, 'receiver') : []
  return [attempt.pid, ...pidsOf(model, 'server'), ...receivers]
}

function pidsOf(model, role) {
  model.pidsByRole ??= new Map()
  if (!model.pidsByRole.has(role))
    model.pidsByRole.set(
      role,
      [...model.roles].filter(([, own]) => own.startsWith(role)).map(([pid]) => pid),
    )
  return model.pidsByRole.get(role)
}

const troublesOf = (model, pids) => pids.flatMap((pid) => model.troubles.get(pid) ?? [])

/** Whether an answer to one of these processes may have got lost from `from` to `to`, or a lease of theirs have ended. */
export function isDoubtful(model, pids, from, to) {
  const all = [...model.outages, ...model.jumps, ...troublesOf(model, pids)]
  return all.some((one) => meets(one, from - leaseUs, to))
}

/** Until when an attempt surely had its delivery, as far as its lease goes. Handlers renew theirs. */
export function leaseEndOf(model, { s, id, token }) {
  if (token === undefined) return Number.POSITIVE_INFINITY
  return leaseOf(model, { s, id, token })?.endsAt ?? Number.NEGATIVE_INFINITY
}

const leaseOf = (model, { s, id, token }) =>
  (model.leases.get(`${s} ${id}`) ?? []).find((one) => one.token === token)

/**
 * Whether the lease of an attempt may have ended before `at`. That of a pull worker has an end that the history knows; that of
 * a handler is renewed, unless its process or the database cannot do it. A clock that jumps ends either.
 */
export function mayHaveLostLease(model, attempt, at) {
  if (at >= leaseEndOf(model, attempt)) return true
  const lease = leaseOf(model, attempt)
  // Nobody renews the lease of a pull worker: small steps of the clock shorten it too.
  if (lease !== undefined && clockAheadMs(model, lease.askedAt, at) * 1_000 >= lease.endsAt - lease.askedAt)
    return true
  const since = lease?.askedAt ?? attempt.begunAt - leaseUs
  if (model.jumps.some((one) => meets(one, since, at))) return true
  if (attempt.token !== undefined) return false
  if (model.outages.some((one) => meets(one, since, at))) return true
  return troublesOf(model, concerned(model, attempt)).some((one) => one.isLong && meets(one, since, at))
}

/**
 * Whether an attempt may have begun late, by whoever had the delivery before it was done at `doneAt`: its process, or the
 * request to it, was held up from before that until shortly before the attempt.
 */
export function mayBeLate(model, attempt, doneAt) {
  if (attempt.begunAt >= leaseEndOf(model, attempt)) return true
  const held = [...model.jumps, ...model.outages, ...troublesOf(model, concerned(model, attempt))]
  return held.some((one) => one.from < doneAt && one.to + 2 * secondUs > attempt.begunAt)
}

/** How far the database's clock has come at most from `from` until `to`, with its steps. */
export function clockAheadMs(model, from, to) {
  let [offsetMs, mostMs] = [0, 0]
  for (const { at, stepMs } of model.steps) {
    if (at < from || at > to) continue
    mostMs = Math.max(mostMs, (at - from) / 1_000 + offsetMs)
    offsetMs += stepMs
    mostMs = Math.max(mostMs, (at - from) / 1_000 + offsetMs)
  }
  return Math.max(mostMs, (to - from) / 1_000 + offsetMs)
}

const skewMs = 2_000

export const mayHaveExpired = (model, { expiresMs, invokedAt }, at) =>
  expiresMs !== undefined && clockAheadMs(model, invokedAt, at) >= expiresMs - skewMs

const job = /^(library\.)?(recover|replay|abortReplay)/

/** A job goes on after its answer, and an operation without an answer may be done later. */
export const effectEndOf = (operation) =>
  job.test(operation.name) ? Number.POSITIVE_INFINITY : answerEndOf(operation)

const answerEndOf = ({ type, answeredAt }) => answeredAt + (type === 'ok' ? promptEffectUs : lateEffectUs)

export function indexTouches(model) {
  model.touchesById = new Map()
  model.wideTouches = []
  model.touchesByDelivery = new Map()
  for (const operation of model.operations.values()) {
    const { touches, ids, key, type } = operation
    if (touches === undefined || type === 'fail') continue
    operation.effectEndsAt = effectEndOf(operation)
    // A lane may have another head by then than the one that was meant.
    if (ids === undefined || key !== undefined) model.wideTouches.push(operation)
    else for (const id of new Set(ids)) push(model.touchesById, id, operation)
  }
}

function push(map, name, value) {
  if (map.has(name)) map.get(name).push(value)
  else map.set(name, [value])
}

/** Operations that an operator did, or may have done, to a delivery: those that name it, and those whose filter covers it. */
export function touchesOf(model, { s, id }) {
  const name = `${s} ${id}`
  const known = model.touchesByDelivery.get(name)
  if (known !== undefined) return known
  const publication = model.publications.get(model.uidById.get(id))
  const own = { s, attempts: model.deliveries.get(name)?.attempts ?? [], publication, id }
  const touches = [...(model.touchesById.get(id) ?? []), ...model.wideTouches].filter((one) =>
    covers(model, one, own),
  )
  model.touchesByDelivery.set(name, touches)
  return touches
}

function covers(model, operation, { s, id, attempts, publication }) {
  if (operation.s !== undefined && operation.s !== s) return false
  if (publication === undefined) return true
  // What a job covers is fixed when it starts, however long it goes on.
  const until = answerEndOf(operation)
  if (until < publication.invokedAt) return false
  const { filter, ids, key, touches } = operation
  // By its own key, or by what a subscription's pointer finds in it.
  if (key !== undefined && key !== publication.key && key !== publication.p) return false
  if (filter?.ordering_key !== undefined && filter.ordering_key !== publication.key) return false
  if (filter?.type !== undefined && filter.type !== publication.type) return false
  if (ids !== undefined || touches !== 'redrive') return true
  return mayBeDead(model, { s, id, attempts, publication }, until)
}

/** A filter on dead letters finds what had expired, was buried, or had an attempt that did not end well. */
function mayBeDead(model, { s, id, attempts, publication }, at) {
  if (mayHaveExpired(model, publication, at)) return true
  if (attempts.some(({ begunAt, outcome }) => begunAt < at && outcome !== 'ok')) return true
  if ((model.touchesById.get(id) ?? []).some(({ touches }) => buries.has(touches))) return true
  return mayHaveBeenLeased(model, publication, { s, id })
}
const buries = new Set(['bury', 'lane skip'])

/** A lease that nobody began, or whose answer got lost, counts as a failure when it ends. */
export function mayHaveBeenLeased(model, { invokedAt }, { s, id }) {
  const begun = new Set((model.deliveries.get(`${s} ${id}`)?.attempts ?? []).map(({ token }) => token))
  return (
    (model.leases.get(`${s} ${id}`) ?? []).some(({ token }) => !begun.has(token)) ||
    model.unknownLeases.some((one) => one.s === s && one.at > invokedAt)
  )
}

/** Whether an operation of these kinds may have changed a delivery from `from` to `to`. */
export function isTouched(model, delivery, kinds, [from, to]) {
  return touchesOf(model, delivery).some(
    (one) => kinds.has(one.touches) && one.invokedAt < to && one.effectEndsAt > from,
  )
}
