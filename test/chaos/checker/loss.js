/** What was acknowledged is done or has a cause for not being done; what was refused or undone is never seen. */
import { passing } from '../topology.js'
import { clockAheadMs, effectEndOf, mayHaveBeenLeased, mayHaveExpired, touchesOf } from './excuses.js'
import { owedTo } from './model.js'

const deadly = new Set(['bury', 'lane skip', 'redrive', 'retry', 'replay', 'lane retry'])
const cancels = new Set(['cancel', 'discard', 'lane discard'])
const replays = new Set(['replay'])

export function findLost(model, answers) {
  const found = []
  const finals = new Map(answers.deliveries.map((one) => [`${one.subscriber} ${one.event_id}`, one]))
  for (const publication of model.publications.values()) {
    if (publication.fate !== 'acked') continue
    const [id] = publication.ids
    for (const s of owedTo(publication)) {
      if (!isSurelyOwed(model, publication, s)) continue
      const delivery = model.deliveries.get(`${s} ${id}`) ?? { s, id, attempts: [], settled: [] }
      const why = whyLost(model, publication, delivery, finals.get(`${s} ${id}`)?.status)
      if (why !== undefined)
        found.push({ rule: 'lost', s, id, text: `${s} event ${id} was acknowledged and ${why}` })
    }
  }
  return found
}

function whyLost(model, publication, delivery, status) {
  const { attempts, settled } = delivery
  const isDone = attempts.some(({ outcome }) => outcome === 'ok')
  const may = (causes) => touchesOf(model, delivery).some(({ touches }) => causes.has(touches))
  const isTold = settled.some(({ settlement }) => settlement === 'complete')
  const isForgotten = delivery.s === 'memory' && wasRestarted(model, publication)
  if (isTold && status !== undefined && status !== 'delivered' && !may(replays) && !isForgotten)
    return `was completed, and is told as ${status}`
  switch (status) {
    case undefined: {
      // A memory queue never writes what was settled before it was persisted.
      if (publication.durability === 'process' && (isForgotten || isTold)) return undefined
      const since = finishedSince(model, publication, delivery)
      if (since === undefined) return 'there is no trace of it, though nothing ended it'
      return mayBePruned(model, publication, since)
        ? undefined
        : 'there is no trace of it, though nobody removed it'
    }
    case 'delivered':
      return isDone ? undefined : 'is told as delivered, though no attempt ended well'
    case 'dlq':
      return attempts.length > 0 || may(deadly) || mayHaveBeenLeased(model, publication, delivery)
        ? undefined
        : 'is a dead letter without an attempt or an operator'
    case 'expired':
      return mayHaveExpired(model, publication, model.endedAt) ? undefined : 'expired though it was not time'
    case 'cancelled':
      return may(cancels) || wasDeleted(model, publication, delivery)
        ? undefined
        : 'was cancelled though nobody cancelled it'
    default:
      return undefined // it still waits: that is for the rule of liveness
  }
}

/** The earliest moment at which a delivery may have been finished in any way, or undefined if nothing can have finished it. */
function finishedSince(model, publication, delivery) {
  const { s, id, attempts } = delivery
  const ends = [
    ...attempts.map(({ begunAt }) => begunAt),
    // A lease that a pull worker abandons counts as a failure, and the last one buries.
    ...(model.leases.get(`${s} ${id}`) ?? []).map(({ at }) => at),
    ...(publication.maxRetries === 1 && mayHaveBeenLeased(model, publication, delivery)
      ? [publication.invokedAt]
      : []),
    ...touchesOf(model, delivery)
      .filter(({ touches }) => cancels.has(touches) || touches === 'bury' || touches === 'lane skip')
      .map(({ invokedAt }) => invokedAt),
    ...(mayHaveExpired(model, publication, model.endedAt) ? [publication.invokedAt] : []),
    ...(wasDeleted(model, publication, delivery) ? [publication.invokedAt] : []),
  ]
  return ends.length === 0 ? undefined : Math.min(...ends)
}

const skewMs = 2_000

/** By a prune when it was old enough, or at once because its type is not kept. */
function mayBePruned(model, { invokedAt, type }, since) {
  return model.removals.some((one) => {
    if (one.defined !== undefined) return one.defined.type === type
    if (effectEndOf(one) < since) return false
    return clockAheadMs(model, invokedAt, effectEndOf(one)) >= one.olderThanMs - skewMs
  })
}

/** A subscription that is deleted cancels what waits for it, and that can be pruned. */
function wasDeleted({ changes }, { invokedAt }, { s }) {
  return changes.some(
    (one) => one.deletes && one.s === s && one.type !== 'fail' && one.answeredAt > invokedAt,
  )
}

/**
 * A memory queue is persisted every few seconds: what is older than that survives its process. One that is frozen, or that
 * cannot reach the database, does not persist.
 */
const persistedUs = 10_000_000
function wasRestarted(model, { invokedAt, ackedAt }) {
  const { deaths, successions, outages, troubles, roles } = model
  const isOver = [...deaths.filter(({ role }) => role === 'memory'), ...successions].some(
    ({ at }) => at > invokedAt,
  )
  const own = [...roles].filter(([, role]) => role === 'memory').flatMap(([pid]) => troubles.get(pid) ?? [])
  return isOver && [...outages, ...own].some(({ from, to }) => to > invokedAt && from < ackedAt + persistedUs)
}

/** Not if a filter was being changed, or the subscription was away, or its process wants no such events now. */
function isSurelyOwed(model, publication, s) {
  const { invokedAt, ackedAt, f, isUnreadable } = publication
  const changes = model.changesBy.get(s) ?? []
  // Between a creation that was acknowledged and the next deletion that was asked for.
  const isAway = (one) => one.deletes && one.invokedAt < ackedAt && !recreatedBefore(changes, one, invokedAt)
  if (passing.includes(s) && changes.some(isAway)) return false
  const inForce = (field) => changesInForce(changes, field, publication)
  const asked = ['types', 'event_types', 'tags'].flatMap(inForce)
  if (asked.some(({ options }) => !mayWant(options, publication))) return false
  return (f === true && !isUnreadable) || inForce('filter').every(({ options }) => options.filter === null)
}

/**
 * Changes of an option that may be in force when an event is published. One is over once a later one was answered: not for
 * handlers, since any worker that starts brings its own options.
 */
function changesInForce(changes, field, { invokedAt, ackedAt }) {
  const own = changes.filter(
    (one) => one.options !== undefined && field in one.options && one.invokedAt < ackedAt,
  )
  const isOver = (one) =>
    one.name === 'subscriber.change' &&
    own.some((next) => next.type === 'ok' && next.invokedAt > effectEndOf(one) && next.answeredAt < invokedAt)
  return own.filter((one) => !isOver(one))
}

/** By what it asks for since then: types and tags. */
function mayWant({ event_types, types = event_types, tags: wanted }, { type, tags }) {
  const matches = (pattern) => pattern === type || type.startsWith(pattern.replace('*', ''))
  if (types !== undefined && !types.some(matches)) return false
  return wanted == null || (tags ?? '').split(',').includes(wanted)
}

function recreatedBefore(changes, deletion, at) {
  return changes.some(
    (one) => one.creates && one.type === 'ok' && one.invokedAt > deletion.invokedAt && one.answeredAt < at,
  )
}

/** Nobody is given what was never published, was refused, was rolled back, was not asked for, or is not what was sent. */
export function findUnexpected(model, answers) {
  const found = []
  const report = (s, id, why) => found.push({ rule: 'unexpected', s, id, text: `${s} event ${id} ${why}` })
  for (const delivery of model.deliveries.values()) {
    const { s, id, attempts } = delivery
    for (const u of new Set(attempts.map((attempt) => attempt.u))) {
      const publication = model.publications.get(u)
      const why = whyUnexpected(publication)
      if (why !== undefined) report(s, id, `${why} and delivered`)
      else if (!owedTo(publication).includes(s) && !mayWantMore(model, delivery))
        report(s, id, 'is not for it')
    }
    const other = attempts.find(({ u, hash }) => isOther(hash, model.publications.get(u)))
    if (other !== undefined) report(s, id, `was given to ${other.pid} with other bytes than were published`)
  }
  for (const { id, u, hash } of answers.stored ?? []) {
    const publication = model.publications.get(u)
    const why = whyUnexpected(publication)
    if (why !== undefined) found.push({ rule: 'unexpected', id, text: `event ${id} ${why} and stored` })
    else if (isOther(hash, publication))
      found.push({
        rule: 'unexpected',
        id,
        text: `event ${id} is stored with other bytes than were published`,
      })
  }
  return found
}

/** Payloads are compared byte for byte, by their digests. */
const isOther = (hash, publication) =>
  hash !== undefined && publication?.hash !== undefined && hash !== publication.hash

function whyUnexpected(publication) {
  if (publication === undefined) return 'was never published'
  return { undone: 'was rolled back', refused: 'was refused' }[publication.fate]
}

/** A replay sends whatever it is told to, and a subscription may have asked for other types. */
const mayWantMore = (model, delivery) =>
  touchesOf(model, delivery).some(({ touches }) => replays.has(touches)) ||
  (model.changesBy.get(delivery.s) ?? []).some(
    ({ options }) => options?.types !== undefined || options?.event_types !== undefined,
  )

/** One event has one id, however often it was published under its key, and no id has two events. */
export function findDoubled(model, answers) {
  const ids = new Map()
  const note = (u, id) => ids.set(u, (ids.get(u) ?? new Set()).add(id))
  for (const { u, ids: told } of model.publications.values()) for (const id of told) note(u, id)
  for (const { id, attempts } of model.deliveries.values()) for (const { u } of attempts) note(u, id)
  for (const { id, u } of answers.stored ?? []) note(u, id)
  const owners = new Map()
  const found = []
  for (const [u, given] of ids) {
    const [id] = given
    if (given.size > 1)
      found.push({
        rule: 'doubled',
        id,
        text: `event with number ${u} is stored as events ${[...given].join(' and ')}`,
      })
    for (const one of given) {
      if (owners.has(one))
        found.push({
          rule: 'doubled',
          id: one,
          text: `event ${one} is two events: ${owners.get(one)} and ${u}`,
        })
      owners.set(one, u)
    }
  }
  return found
}
