/** What holds of a failover besides what always does. Times are microseconds. */
import { findNumberedTwice } from './checker/lane-numbers.js'
import { readModel } from './checker/model.js'
import { coveredUs, union } from './checker/spans.js'

const standMsMax = 2_000
const idJump = 2 ** 28

/** A process may be slow to say what it was told. */
const lateUs = 1_000_000

/**
 * With an asynchronous standby, what was asked for before there was a new primary and answered after the standby had heard the
 * last is as good as unanswered: it may be lost or undone, and a lease with it. An event that the standby lacks may have been attempted before, and
 * its publisher may have sent it again: it has another id then, and the first one is nobody's.
 */
export function withoutLostAnswers(history, { answers, ...times }) {
  const { heardAt, promotedAt } = times
  const invokedAt = new Map()
  const stored = new Set(answers.events.map(({ id }) => id))
  const isOfLost = ({ kind, id, at }) => kind === 'begin' && !stored.has(id) && at <= promotedAt + lateUs
  // A memory queue is told by its own process.
  const isTold = ({ kind, s, at }) =>
    s !== 'memory' &&
    ['leased', 'settled', 'served', 'settle ok'].includes(kind) &&
    at >= heardAt &&
    at <= promotedAt + lateUs
  return history
    .filter((record) => !isTold(record) && !isOfLost(record))
    .map((record) => {
      if (record.kind === 'invoke') invokedAt.set(record.op, record.at)
      const { kind, type, at } = record
      if (kind !== 'answer' || type !== 'ok') return record
      if (!mayBeLost({ at, invokedAt: invokedAt.get(record.op) }, times)) return record
      const { answers: _, ...rest } = record
      return { ...rest, type: 'info' }
    })
}

const mayBeLost = ({ at, invokedAt }, { heardAt, promotedAt }) => at >= heardAt && invokedAt <= promotedAt

export function judgeFailover(history, { heardAt, promotedAt, answers, isSynchronous }) {
  const acked = readAcked(history)
  const twice = givenTwice(acked).map((id) => ({
    id,
    rule: 'id twice',
    text: `event ${id} was acknowledged for two events`,
  }))
  const lost = lostOf(acked, { heardAt, promotedAt, answers, isSynchronous }).map(({ id, u }) => ({
    ...{ rule: 'lost', s: 'probe', id, text: `event ${id} (number ${u}) was acknowledged and is not stored` },
  }))
  const stands = standsOf(history, { acked, promotedAt })
    .filter(({ ms }) => ms > standMsMax)
    .map(({ key, id, ms }) => ({
      rule: 'stand',
      s: 'probe',
      id,
      text: `lane ${key} stood for ${ms} ms before event ${id}`,
    }))
  // Also of an event that the standby lacks: its receiver has seen the number.
  return [...twice, ...lost, ...stands, ...findNumberedTwice(readModel(history))]
}

export function countFailover(history, { heardAt, killedAt, promotedAt, answers }) {
  const acked = readAcked(history)
  const before = acked.filter(({ at }) => at < killedAt).map(({ id }) => id)
  const after = acked.filter(({ askedAt }) => askedAt > promotedAt).map(({ id }) => id)
  const stored = new Set(answers.events.map(({ id }) => id))
  return {
    acked: acked.length,
    ackedAfter: after.length,
    unknown: history.filter(
      ({ kind, type, name }) => kind === 'answer' && type === 'info' && name.startsWith('publish'),
    ).length,
    // What is in the memory of a process is not in the database.
    lost: acked.filter(
      (one) => one.durability !== 'process' && mayBeLost(one, { heardAt, promotedAt }) && !stored.has(one.id),
    ).length,
    idsTwice: givenTwice(acked).length,
    jumped: after.length === 0 ? 0 : Math.round((largest(after, -1) - largest(before, 1)) / idJump),
    backMs: Math.round((backAtOf(acked, promotedAt) - killedAt) / 1_000),
    longestStandMs: Math.max(0, ...standsOf(history, { acked, promotedAt }).map(({ ms }) => ms)),
  }
}

/** The largest, or with −1 the smallest: there may be too many for arguments of one call. */
const largest = (ids, sign) => ids.reduce((best, id) => (sign * id > sign * best ? id : best))

/** Every id that was told, by every way of publishing, in their order. An event may be asked for several times. */
function readAcked(history) {
  const calls = new Map()
  const firstAskedAt = new Map()
  const acked = []
  for (const { kind, op, at, type, events, undone = [], answers } of history) {
    if (kind === 'invoke' && events !== undefined) {
      calls.set(op, { invokedAt: at, events, undone })
      for (const { u } of events) if (!firstAskedAt.has(u)) firstAskedAt.set(u, at)
    }
    if (kind !== 'answer' || type !== 'ok' || answers === undefined || !calls.has(op)) continue
    const call = calls.get(op)
    for (const [place, one] of call.events.entries()) {
      const { id, durability } = answers[place] ?? {}
      if (id === undefined || call.undone.includes(one.u)) continue
      acked.push({ at, id, durability, invokedAt: call.invokedAt, askedAt: firstAskedAt.get(one.u), ...one })
    }
  }
  return acked
}

function givenTwice(acked) {
  const owners = new Map()
  const twice = new Set()
  for (const { id, u } of acked) {
    if (owners.has(id) && owners.get(id) !== u) twice.add(id)
    owners.set(id, u)
  }
  return [...twice]
}

/** Of the lanes that nobody touches; for the others the driver's own rule is enough. */
function lostOf(acked, { heardAt, promotedAt, answers, isSynchronous }) {
  const stored = new Set(answers.events.map(({ id }) => id))
  const isExcused = (one) => !isSynchronous && mayBeLost(one, { heardAt, promotedAt })
  return acked.filter((one) => one.type.startsWith('probe.') && !stored.has(one.id) && !isExcused(one))
}

/** When somebody could publish again. */
const backAtOf = (acked, promotedAt) =>
  acked.find(({ invokedAt }) => invokedAt > promotedAt)?.at ?? Number.POSITIVE_INFINITY

/** How long lanes stood with something to do, once there was a server again, while all processes got to run. */
function standsOf(history, { acked, promotedAt }) {
  const backAt = backAtOf(acked, promotedAt)
  const stalls = union(history.filter(({ kind }) => kind === 'stall'))
  const ackedAt = new Map(acked.map(({ u, at }) => [u, at]))
  const lastOf = new Map()
  const stands = []
  for (const { kind, s, key, id, u, at } of history) {
    if (kind !== 'begin' || s !== 'probe') continue
    const since = Math.max(backAt, lastOf.get(key) ?? 0, ackedAt.get(u) ?? 0)
    // A busy machine is slow, and slow is not wrong.
    const us = at - since - coveredUs(stalls, [since, at])
    if (at > backAt) stands.push({ key, id, ms: Math.round(us / 1_000) })
    lastOf.set(key, at)
  }
  return stands
}
