/** A history, sorted out: who published what, which attempts each delivery had, and what was done to whom. */
import { hookNames, hookTimeoutMs, owedByType } from '../topology.js'
import { indexTouches, indexTroubles } from './excuses.js'

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
    wrongLists: [],
    leases: new Map(),
    settles: [],
    losses: [],
    unknownLeases: [],
    woken: [],
    successions: [],
    roles: new Map(),
    /** By role, every process that was there: when it was ready, and when it died. */
    lives: new Map(),
    /** By delivery, the servers that were asked to lease, renew or settle it. */
    carriers: new Map(),
    /** By delivery to a worker of the client, when it was leased, renewed or settled. */
    carries: new Map(),
    changes: [],
    changesBy: new Map(),
    healedAt: Number.POSITIVE_INFINITY,
    endedAt: (history.at(-1)?.at ?? 0) + answersUs,
  }
  const open = { attempts: new Map(), faults: new Map(), settles: new Map(), leases: new Map() }
  for (const record of history) readers[record.kind]?.(model, record, open)
  for (const { s, attempts } of model.deliveries.values())
    if (hookNames.includes(s)) for (const one of attempts) giveUp(one)
  for (const operation of model.operations.values()) {
    if (operation.events !== undefined) readPublish(model, operation)
    if (operation.options === undefined && !operation.deletes && !operation.creates) continue
    model.changes.push(operation)
    if (model.changesBy.has(operation.s)) model.changesBy.get(operation.s).push(operation)
    else model.changesBy.set(operation.s, [operation])
  }
  // A prune that fails has done what it did before: it has many statements.
  model.removals = [...model.operations.values()].filter(
    ({ name, type, defined }) => name === 'prune' || (type !== 'fail' && defined?.keepMs !== undefined),
  )
  indexTroubles(model)
  indexTouches(model)
  return model
}

/** The final answers are read after the last record. */
const answersUs = 60_000_000

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
  // A server that has settled for a webhook or for a remote worker.
  served: (model, { s, id, pid, at, settlement }) =>
    deliveryOf(model, s, id).settled.push({ at, settlement, by: pid, isServed: true }),
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
      carry(model, name, record.server)
      const askedAt = open.leases.get(`${record.pid} ${record.no}`)
      model.leases.set(name, [...(model.leases.get(name) ?? []), { ...one, at: record.at, askedAt, endsAt }])
    }
  },
  'lease unknown': (model, { s, at }) => model.unknownLeases.push({ s, at }),
  // A repeat is answered as the first call was, so that the first one counts.
  settle: (model, record, open) => {
    carry(model, `${record.s} ${record.id}`, record.server)
    const name = `${record.pid} ${record.no} ${record.verb}`
    if (!open.settles.has(name)) open.settles.set(name, record)
  },
  carried: (model, { s, server, ids, at }) => {
    for (const name of ids.map((id) => `${s} ${id}`)) {
      carry(model, name, server)
      if (model.carries.has(name)) model.carries.get(name).push(at)
      else model.carries.set(name, [at])
    }
  },
  'settle ok': (model, record, open) => {
    const { s, id, at, verb, isLast } = record
    const asked = open.settles.get(`${record.pid} ${record.no} ${verb}`)
    model.settles.push({ ...record, askedAt: asked?.at ?? at, byToken: asked?.byToken })
    const attempt = deliveryOf(model, s, id).attempts.findLast(({ token }) => token === record.token)
    if (attempt !== undefined && verb !== 'start' && verb !== 'heartbeat') attempt.isSettled = true
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
  process: ({ roles, lives }, { pid, role, at }) => {
    roles.set(pid, role)
    const life = { pid, from: at, to: Number.POSITIVE_INFINITY }
    if (lives.has(role)) lives.get(role).push(life)
    else lives.set(role, [life])
  },
  died: (model, record) => {
    model.deaths.push({ ...record, pid: record.pid, role: record.role })
    const life = model.lives.get(record.role)?.findLast(({ pid }) => pid === record.pid)
    if (life !== undefined) life.to = record.at
  },
  stall: (model, { pid, from, to }) => model.stalls.push({ pid, from, to }),
  succession: (model, record) => model.successions.push(record),
  woken: (model, record) => model.woken.push(record),
  'server error': (model, record) => model.serverErrors.push(record),
  'wrong list': (model, record) => model.wrongLists.push(record),
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

function carry({ carriers }, name, server) {
  if (server === undefined) return
  if (carriers.has(name)) carriers.get(name).add(server)
  else carriers.set(name, new Set([server]))
}

function deliveryOf({ deliveries }, s, id) {
  const name = `${s} ${id}`
  if (!deliveries.has(name)) deliveries.set(name, { name, s, id, attempts: [], settled: [] })
  return deliveries.get(name)
}

/** One event may be asked for several times under one key: it counts from the first call on, and from the first answer. */
function readPublish(model, operation) {
  const { events, type, answers, undone = [], invokedAt, answeredAt } = operation
  const rolledBack = new Set(undone)
  for (const [place, event] of events.entries()) {
    const isUndone = rolledBack.has(event.u)
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
