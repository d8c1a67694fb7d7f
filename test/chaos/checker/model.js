/** A history, sorted out: who published what, which attempts each delivery had, and what was done to whom. */
import { hookNames, hookTimeoutMs, owedByType, remote } from '../topology.js'

/**
 * @typedef {object} Attempt
 * @property {number} begunAt
 * @property {number | null} endedAt null: it never said
 * @property {string | null} outcome
 * @property {number} pid
 * @typedef {object} Delivery
 * @property {string} s subscription
 * @property {number} id of the event
 * @property {Attempt[]} attempts by when they began
 * @property {{ at: number, settlement: string }[]} settled as acknowledged
 */
export function readModel(history) {
  const model = {
    operations: new Map(),
    publications: new Map(),
    uidById: new Map(),
    deliveries: new Map(),
    faults: [],
    deaths: [],
    stalls: [],
    serverErrors: [],
    leases: new Map(),
    settles: [],
    losses: [],
    unknownLeases: [],
    woken: [],
    successions: [],
    roles: new Map(),
    changes: [],
    healedAt: Number.POSITIVE_INFINITY,
  }
  const open = { attempts: new Map(), faults: new Map(), settles: new Map(), leases: new Map() }
  for (const record of history) readers[record.kind]?.(model, record, open)
  for (const { s, attempts } of model.deliveries.values())
    if (hookNames.includes(s)) for (const one of attempts) giveUp(one)
  for (const operation of model.operations.values()) {
    if (operation.events !== undefined) readPublish(model, operation)
    if (operation.options !== undefined || operation.deletes || operation.creates)
      model.changes.push(operation)
  }
  indexTouches(model)
  return model
}

const readers = {
  invoke: ({ operations }, { at, op, kind, pid, ...fields }) =>
    operations.set(op, { op, invokedAt: at, answeredAt: Number.POSITIVE_INFINITY, type: 'info', ...fields }),
  answer: ({ operations }, { at, op, type, code, answers, status }) =>
    Object.assign(operations.get(op), { answeredAt: at, type, code, answers, status }),
  begin: (model, record, open) => {
    const attempt = { ...record, begunAt: record.at, endedAt: null, outcome: null }
    deliveryOf(model, record.s, record.id).attempts.push(attempt)
    model.uidById.set(record.id, record.u)
    open.attempts.set(`${record.pid} ${record.no}`, attempt)
  },
  end: (_, { pid, no, at, outcome }, open) => endAttempt(open.attempts.get(`${pid} ${no}`), { at, outcome }),
  // The hub may be done with an attempt before its handler is: it timed out, or was settled in a transaction.
  settled: (model, { s, id, pid, at, settlement }) => {
    const delivery = deliveryOf(model, s, id)
    delivery.settled.push({ at, settlement, by: pid })
    const attempt = unsettledAttempt(delivery, pid)
    if (attempt === undefined) return
    attempt.isSettled = true
    endAttempt(attempt, { at, outcome: settledAs[settlement] ?? 'timeout' })
  },
  // It may still be settled: that is accepted until somebody else has it.
  lost: (model, { s, id, pid, at, why }) => {
    const delivery = deliveryOf(model, s, id)
    const attempt = delivery.attempts.findLast((one) => one.pid === pid)
    if (attempt !== undefined) attempt.lostAt ??= at
    model.losses.push({ s, id, pid, at, why, since: attempt?.begunAt ?? at })
  },
  lease: (_, { pid, no, at }, open) => open.leases.set(`${pid} ${no}`, at),
  leased: (model, record, open) => {
    // It was in force at least until then: heartbeats only prolong it.
    const endsAt = open.leases.get(`${record.pid} ${record.no}`) + record.leaseSecs * 1_000_000
    for (const one of record.events) {
      const name = `${record.s} ${one.id}`
      model.leases.set(name, [...(model.leases.get(name) ?? []), { ...one, at: record.at, endsAt }])
    }
  },
  'lease unknown': (model, { s, at }) => model.unknownLeases.push({ s, at }),
  settle: (_, record, open) => open.settles.set(`${record.pid} ${record.no} ${record.verb}`, record.at),
  'settle ok': (model, record, open) => {
    const { s, id, at, verb, isLast } = record
    model.settles.push({ ...record, askedAt: open.settles.get(`${record.pid} ${record.no} ${verb}`) })
    if (verb === 'complete')
      deliveryOf(model, s, id).settled.push({ at, settlement: 'complete', by: record.token })
    if (verb === 'bury' || isLast)
      deliveryOf(model, s, id).settled.push({ at, settlement: 'bury', by: record.token })
  },
  fault: (model, record, open) => {
    const name = `${record.fault} ${record.pid} ${record.role} ${record.postmaster}`
    if (record.phase === 'begins') {
      const fault = { ...record, from: record.at, to: Number.POSITIVE_INFINITY }
      open.faults.set(record.fault.startsWith('clock') ? record.fault : name, fault)
      model.faults.push(fault)
    } else {
      const fault = open.faults.get(
        record.fault.startsWith('clock')
          ? record.fault
          : `${record.fault} ${record.pid} ${record.role} ${record.postmaster}`,
      )
      if (fault !== undefined) fault.to = record.at
    }
  },
  process: ({ roles }, { pid, role }) => roles.set(pid, role),
  died: (model, record) => model.deaths.push({ ...record, pid: record.pid, role: record.role }),
  stall: (model, { pid, from, to }) => model.stalls.push({ pid, from, to }),
  succession: (model, record) => model.successions.push(record),
  woken: (model, record) => model.woken.push(record),
  'server error': (model, record) => model.serverErrors.push(record),
  heal: (model, { at }) => {
    model.healedAt = at
  },
}

/** Whoever sends waits no longer, whatever the receiver still does. */
function giveUp(attempt) {
  const limit = attempt.begunAt + hookTimeoutMs * 1_000
  if (attempt.endedAt !== null && attempt.endedAt <= limit) return
  Object.assign(attempt, { endedAt: limit, outcome: 'hang' })
}

const settledAs = { complete: 'ok', bury: 'bury' }

/** Whatever comes first counts. */
function endAttempt(attempt, { at, outcome }) {
  if (attempt?.endedAt === null) Object.assign(attempt, { endedAt: at, outcome })
}

/** A process may begin the next attempt before it tells that it has settled the one before. */
const unsettledAttempt = ({ attempts }, pid) =>
  attempts.find((one) => one.pid === pid && !one.isSettled && one.lostAt === undefined)

function deliveryOf({ deliveries }, s, id) {
  const name = `${s} ${id}`
  if (!deliveries.has(name)) deliveries.set(name, { name, s, id, attempts: [], settled: [] })
  return deliveries.get(name)
}

/** One event may be asked for several times under one key: it counts from the first call on, and from the first answer. */
function readPublish(model, operation) {
  const { events, type, answers, undone = [], invokedAt, answeredAt } = operation
  for (const [place, event] of events.entries()) {
    const isUndone = undone.includes(event.u)
    const fate = isUndone ? 'undone' : type === 'ok' ? 'acked' : type === 'info' ? 'unknown' : 'refused'
    const known = model.publications.get(event.u)
    const publication = known ?? {
      ...event,
      place,
      op: operation.op,
      calls: 0,
      invokedAt,
      ackedAt: null,
      fate,
      ids: new Set(),
      durability: null,
    }
    model.publications.set(event.u, publication)
    publication.calls++
    if (fateRank[fate] > fateRank[publication.fate]) publication.fate = fate
    if (fate !== 'acked') continue
    publication.ackedAt = Math.min(publication.ackedAt ?? Number.POSITIVE_INFINITY, answeredAt)
    const answer = answers?.[place]
    if (answer?.id === undefined) continue
    publication.ids.add(answer.id)
    publication.durability ??= answer.durability ?? null
    model.uidById.set(answer.id, event.u)
  }
}
const fateRank = { undone: 0, refused: 1, unknown: 2, acked: 3 }

/** Who is owed an event, whatever filters say: see `isOwed`. */
export function owedTo({ type, tags }) {
  return [...(owedByType[type.split('.')[0]] ?? []), ...(tags === undefined ? [] : ['work'])]
}

function indexTouches(model) {
  model.touchesById = new Map()
  model.touchesBySubscription = new Map()
  model.cancelFilters = []
  for (const operation of model.operations.values()) {
    const { touches, ids, s, filter, type } = operation
    if (touches === undefined || type === 'fail') continue
    if (filter !== undefined) model.cancelFilters.push(operation)
    else if (ids === undefined) push(model.touchesBySubscription, s, operation)
    else for (const id of ids) push(model.touchesById, id, operation)
  }
}

function push(map, name, value) {
  if (map.has(name)) map.get(name).push(value)
  else map.set(name, [value])
}

/** Operations that an operator did, or may have done, to a delivery. Those of a lane count for all that is in it. */
export function touchesOf(model, { s, id }) {
  const publication = model.publications.get(model.uidById.get(id))
  const matches = ({ filter }) =>
    publication !== undefined &&
    (filter.ordering_key === undefined || filter.ordering_key === publication.key) &&
    (filter.type === undefined || filter.type === publication.type)
  return [
    ...(model.touchesById.get(id) ?? []).filter((one) => one.s === undefined || one.s === s),
    ...(model.touchesBySubscription.get(s) ?? []),
    ...model.cancelFilters.filter(matches),
  ]
}

const global = new Set([
  'database.kill',
  'database.restart',
  'clock.forward',
  'clock.back',
  'slowCommits',
  'promote',
])
const longStallUs = 1_000_000

/**
 * Whether something happened from `from` to `to` by which a lease of one of these processes may have ended, or an answer
 * got lost: then nobody can say what should have followed. A clock that jumps ends leases everywhere.
 */
export function isDoubtful(model, pids, from, to) {
  const concerns = (one) => global.has(one.fault) || pids.includes(one.pid)
  return (
    model.faults.some((one) => concerns(one) && one.from <= to && one.to + 3_000_000 >= from) ||
    model.deaths.some(({ pid, at }) => pids.includes(pid) && at >= from - 1_000_000 && at <= to) ||
    model.stalls.some(
      (one) =>
        one.from <= to && one.to >= from && (pids.includes(one.pid) || one.to - one.from > longStallUs),
    )
  )
}

/** Until when an attempt surely had its delivery, as far as its lease goes. Handlers renew theirs. */
export function leaseEndOf(model, { s, id, token }) {
  if (token === undefined) return Number.POSITIVE_INFINITY
  const lease = (model.leases.get(`${s} ${id}`) ?? []).find((one) => one.token === token)
  return lease?.endsAt ?? Number.NEGATIVE_INFINITY
}

/** Whose trouble can disturb an attempt: its own process, and of webhooks and pull workers the API's too. */
export function concerned(model, { s, pid }) {
  if (!remote.includes(s)) return [pid]
  model.serverPids ??= [...model.roles]
    .filter(([, role]) => /^(server|receiver)/.test(role))
    .map(([one]) => one)
  return [pid, ...model.serverPids]
}
