/** What was acknowledged is done or has a cause for not being done; what was refused or undone is never seen. */
import { passing } from '../topology.js'
import { owedTo, touchesOf } from './model.js'

const causes = {
  dlq: ['bury', 'lane skip', 'redrive', 'retry', 'replay', 'lane retry'],
  cancelled: ['cancel', 'discard', 'lane discard'],
}

export function findLost(model, answers) {
  const found = []
  const isPruned = [...model.operations.values()].some(
    ({ name, type }) => name === 'prune' && type !== 'fail',
  )
  const finals = new Map(answers.deliveries.map((one) => [`${one.subscriber} ${one.event_id}`, one]))
  for (const publication of model.publications.values()) {
    if (publication.fate !== 'acked') continue
    const [id] = publication.ids
    for (const s of owedTo(publication)) {
      if (!isSurelyOwed(model, publication, s)) continue
      const delivery = model.deliveries.get(`${s} ${id}`) ?? { s, id, attempts: [], settled: [] }
      const why = whyLost(model, publication, delivery, { final: finals.get(`${s} ${id}`), isPruned })
      if (why !== undefined)
        found.push({ rule: 'lost', s, id, text: `${s} event ${id} was acknowledged and ${why}` })
    }
  }
  return found
}

function whyLost(model, publication, delivery, { final, isPruned }) {
  const { attempts } = delivery
  const touches = touchesOf(model, delivery).map(({ touches }) => touches)
  const isDone = attempts.some(({ outcome }) => outcome === 'ok')
  const may = (status) => touches.some((one) => causes[status].includes(one))
  switch (final?.status) {
    case undefined: {
      if (isDone || publication.expiresMs !== undefined || touches.length > 0) return undefined
      if (isPruned && (attempts.length > 0 || wasDeleted(model, publication, delivery))) return undefined
      if (delivery.s === 'memory' && publication.durability === 'process' && wasKilled(model, 'memory'))
        return undefined
      return `there is no trace of it${isPruned ? ', though nothing was done with it that prune could remove' : ''}`
    }
    case 'delivered':
      return isDone ? undefined : 'is told as delivered, though no attempt ended well'
    case 'dlq':
      return attempts.length > 0 || may('dlq') || mayHaveBeenLeased(model, publication, delivery)
        ? undefined
        : 'is a dead letter without an attempt or an operator'
    case 'expired':
      return publication.expiresMs !== undefined ? undefined : 'expired though it had no expiry'
    case 'cancelled':
      return may('cancelled') || wasDeleted(model, publication, delivery)
        ? undefined
        : 'was cancelled though nobody cancelled it'
    default:
      return undefined // it still waits: that is for the rule of liveness
  }
}

/** A lease that ends before a pull worker begins, or whose answer got lost, counts as a failure: it may be the last one. */
function mayHaveBeenLeased(model, { invokedAt }, { s, id }) {
  return (
    model.leases.has(`${s} ${id}`) || model.unknownLeases.some((one) => one.s === s && one.at > invokedAt)
  )
}

/** A subscription that is deleted cancels what waits for it, and that can be pruned. */
function wasDeleted({ changes }, { invokedAt }, { s }) {
  return changes.some(
    (one) => one.deletes && one.s === s && one.type !== 'fail' && one.answeredAt > invokedAt,
  )
}

const wasKilled = ({ deaths }, role) => deaths.some((one) => one.role === role)

/** Not if a filter was being changed, or the subscription was away, or its process wants no such events now. */
function isSurelyOwed(model, publication, s) {
  const { invokedAt, ackedAt, f, isUnreadable } = publication
  const changes = model.changes.filter((one) => one.s === s)
  // Between a creation that was acknowledged and the next deletion that was asked for.
  const isAway = (one) => one.deletes && one.invokedAt < ackedAt && !recreatedBefore(changes, one, invokedAt)
  if (passing.includes(s) && changes.some(isAway)) return false
  const isNarrow = ({ options, invokedAt }) =>
    options !== undefined && invokedAt < ackedAt && !mayWant(options, publication)
  if (changes.some(isNarrow)) return false
  const filters = changes.filter(({ options }) => options !== undefined && 'filter' in options)
  return (
    (f === true && !isUnreadable) ||
    !filters.some((one) => one.options.filter !== null && one.invokedAt < ackedAt)
  )
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

/** Nobody is given what was never published, was refused, or was rolled back. */
export function findUnexpected(model) {
  const found = []
  for (const { s, id, attempts } of model.deliveries.values()) {
    if (attempts.length === 0) continue
    const publication = model.publications.get(attempts[0].u)
    if (publication === undefined)
      found.push({ rule: 'unexpected', s, id, text: `${s} event ${id} was never published` })
    else if (publication.fate === 'undone')
      found.push({ rule: 'unexpected', s, id, text: `${s} event ${id} was rolled back and delivered` })
    else if (publication.fate === 'refused')
      found.push({ rule: 'unexpected', s, id, text: `${s} event ${id} was refused and delivered` })
  }
  return found
}

/** One event has one id, however often it was published under its key, and no id has two events. */
export function findDoubled(model, answers) {
  const ids = new Map()
  const note = (u, id) => ids.set(u, (ids.get(u) ?? new Set()).add(id))
  for (const { u, ids: told } of model.publications.values()) for (const id of told) note(u, id)
  for (const { id, attempts } of model.deliveries.values()) for (const { u } of attempts) note(u, id)
  for (const { id, payload } of answers.events) if (payload?.u !== undefined) note(payload.u, id)
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
