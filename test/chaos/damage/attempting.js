/** Attempts that should not have been, or not then, and settlements that should have been refused. */
import { owedTo } from '../checker/model.js'
import { lanesOf } from '../checker/order.js'
import {
  attemptOf,
  cached,
  completedOf,
  deliveriesOf,
  finalsOf,
  isOf,
  publicationOf,
  sorted,
} from './places.js'

export const attempting = {
  'an attempt after the acknowledged completion': repeat,
  'two attempts of a delivery overlap': overlap,
  'two neighbours of a lane are swapped': swap,
  'two neighbours of a lane overlap': runTogether,
  'an outdated token settles': settleLate,
  'a burial after too few failures': buryEarly,
  'more failures than are allowed': failOnceMore,
  'what a killed process had comes again too late': recoverLate,
  'probes begin too late': startLate,
  'two events of a lane have one number': numberTwice,
}

const added = (material, { s, id }, records) => ({
  ...material,
  history: sorted(material.history, records),
  ids: [id],
  what: `${s} event ${id}`,
})

function repeat(material, random) {
  const delivery = random.pick(completedOf(material))
  if (delivery === undefined) return undefined
  const { at } = delivery.settled.findLast(({ settlement }) => settlement === 'complete')
  const from = at + random.integer(1, 2_000) * 1_000
  return added(material, delivery, attemptOf(material, delivery, { from, to: from + 5_000, outcome: 'ok' }))
}

function overlap(material, random) {
  const delivery = random.pick(deliveriesOf(material))
  const { begunAt, endedAt } = random.pick(delivery.attempts)
  if (endedAt === null || endedAt - begunAt < 100) return undefined
  const from = begunAt + Math.floor((endedAt - begunAt) * random.next())
  return added(
    material,
    delivery,
    attemptOf(material, delivery, { from, to: endedAt + 2_000, outcome: 'ok' }),
  )
}

/** Only those whose order was promised: one was acknowledged before the other was asked for, or both by one call. */
const neighboursOf = (material) =>
  cached(material, 'neighbours', () =>
    lanesOf(material.model).flatMap(([, members]) =>
      members
        .slice(1)
        .map((second, place) => [members[place], second])
        .filter(([a, b]) => isPromised(publicationOf(material, a.id), publicationOf(material, b.id))),
    ),
  )

function isPromised(a, b) {
  if (a.calls > 1 || b.calls > 1) return false
  return a.op === b.op ? a.place < b.place : a.ackedAt !== null && a.ackedAt < b.invokedAt
}

function swap(material, random) {
  const [first, second] = random.pick(neighboursOf(material)) ?? []
  if (first === undefined) return undefined
  const names = new Map([
    [first.id, { u: second.attempts[0].u, id: second.id }],
    [second.id, { u: first.attempts[0].u, id: first.id }],
  ])
  const { s } = first
  const turn = (record) => {
    if (record.op !== undefined || record.s !== s) return record
    if (record.kind === 'leased')
      return { ...record, events: record.events.map((one) => ({ ...one, ...names.get(one.id) })) }
    return { ...record, ...names.get(record.id) }
  }
  const ids = [first.id, second.id]
  return { ...material, history: material.history.map(turn), ids, what: `${s} events ${ids}` }
}

/** The second begins, as well, while the first is still at it. */
function runTogether(material, random) {
  const [first, second] = random.pick(neighboursOf(material)) ?? []
  if (first === undefined) return undefined
  const { begunAt, endedAt } = first.attempts.at(-1)
  if (endedAt === null || endedAt - begunAt < 100) return undefined
  const from = begunAt + Math.floor((endedAt - begunAt) * random.next())
  const records = attemptOf(material, second, { from, to: endedAt + 2_000, outcome: 'throw' })
  return { ...added(material, second, records), ids: [first.id, second.id] }
}

/** A refusal becomes an acceptance, or whoever held the lease before settles as well. */
function settleLate(material, random) {
  const refused = cached(material, 'refused', () =>
    material.history.filter(
      ({ kind, verb }) => kind === 'settle refused' && verb !== 'heartbeat' && verb !== 'start',
    ),
  )
  const succeeded = cached(material, 'succeeded', () =>
    [...material.model.leases].filter(([, leases]) => new Set(leases.map(({ token }) => token)).size > 1),
  )
  const place = random.integer(0, refused.length + succeeded.length - 1)
  if (place >= refused.length) {
    const [name, leases] = succeeded[place - refused.length]
    const [s, id] = [name.split(' ')[0], Number(name.split(' ')[1])]
    const [{ token }] = leases
    const at = leases.at(-1).at + random.integer(1, 200) * 1_000
    const what = { pid: 1, no: 'late', s, id, token, verb: 'complete' }
    return added(material, { s, id }, [
      { at, kind: 'settle', ...what, byToken: true },
      { at: at + 500, kind: 'settle ok', ...what, status: 200 },
    ])
  }
  const late = refused[place]
  if (late === undefined) return undefined
  const accepted = { ...late, kind: 'settle ok', status: 200 }
  const history = material.history.map((record) => (record === late ? accepted : record))
  return { ...material, history, ids: [late.id], what: `${late.s} event ${late.id}` }
}

/** Its only attempt failed, and it is dead. */
function buryEarly(material, random) {
  const once = cached(material, 'once', () =>
    completedOf(material).filter(
      ({ s, name, id, attempts }) =>
        attempts.length === 1 &&
        attempts[0].token === undefined &&
        finalsOf(material).get(name)?.status === 'delivered' &&
        (publicationOf(material, id)?.maxRetries ?? 4) > 1 &&
        owedTo(publicationOf(material, id) ?? { type: '' }).length === 1 &&
        s !== 'ledger',
    ),
  )
  const delivery = random.pick(once)
  if (delivery === undefined) return undefined
  const { s, id, name } = delivery
  const history = material.history.map((record) => {
    if (record.op !== undefined || !isOf(record, delivery)) return record
    if (record.kind === 'end') return { ...record, outcome: 'throw' }
    return record.kind === 'settled' ? { ...record, settlement: 'bury' } : record
  })
  const dead = { ...finalsOf(material).get(name), status: 'dlq', failures: 1 }
  const letter = { message_id: dead.id, event_id: id, subscriber: s, kind: 'buried', manual_retry_at: null }
  const { deliveries, letters, events } = material.answers
  const answers = {
    ...material.answers,
    deliveries: deliveries.map((one) => (one.id === dead.id ? dead : one)),
    letters: [...letters, letter],
    events: events.map((one) => (one.id === id ? { ...one, status: 'FAILED' } : one)),
  }
  return { history, answers, ids: [id], what: `${s} event ${id}` }
}

const failuresMax = 4

/** Before its last attempt it fails more often than it may. */
function failOnceMore(material, random) {
  const delivery = random.pick(deliveriesOf(material))
  const most = Math.max(publicationOf(material, delivery.id)?.maxRetries ?? failuresMax, failuresMax)
  const { begunAt } = delivery.attempts[0]
  const records = Array.from({ length: most + 1 }, (_, n) => begunAt - (most + 1 - n) * 3_000).flatMap(
    (from) => attemptOf(material, delivery, { from, to: from + 1_000, outcome: 'throw' }),
  )
  return added(material, delivery, records)
}

const secondUs = 1_000_000
/** More than all faults of a run together can explain. */
const lateUs = 90 * secondUs

/** What comes after the death of the process that had it comes later: no other record of it is between. */
function recoverLate(material, random) {
  const { deaths } = material.model
  const held = cached(material, 'held', () =>
    deliveriesOf(material).flatMap((delivery) => {
      const { s, attempts } = delivery
      if (s === 'polled' || s === 'memory') return []
      return attempts.slice(1).flatMap((next, place) => {
        const before = attempts[place]
        const isBetween = ({ pid, at, signal }) =>
          signal === 'SIGKILL' && pid === before.pid && at > before.begunAt && at < next.begunAt
        return before.endedAt === null && deaths.some(isBetween) ? [{ delivery, next }] : []
      })
    }),
  )
  const { delivery, next } = random.pick(held) ?? {}
  if (next === undefined) return undefined
  const { s, id } = delivery
  const history = sorted(
    material.history.map((record) =>
      record.op === undefined && isOf(record, delivery) && record.at >= next.begunAt
        ? { ...record, at: record.at + lateUs }
        : record,
    ),
    [],
  )
  return { ...material, history, ids: [id], what: `${s} event ${id}` }
}

/** All of one way of consuming, by 2.5 s. */
function startLate(material, random) {
  const probes = cached(material, 'probes', () =>
    [...material.model.publications.values()].filter(({ isProbe, ids }) => isProbe && ids.size > 0),
  )
  const chosen = random.pick(probes)
  if (chosen === undefined) return undefined
  const s = chosen.type.split('.')[0]
  const ids = new Set(probes.filter(({ type }) => type === chosen.type).map((one) => [...one.ids][0]))
  const history = sorted(
    material.history.map((record) =>
      record.op === undefined && record.s === s && ids.has(record.id)
        ? { ...record, at: record.at + 2.5 * secondUs }
        : record,
    ),
    [],
  )
  return { ...material, history, ids: [...ids], what: `probes of ${s}` }
}

function numberTwice(material, random) {
  const numbered = cached(material, 'numbered', () =>
    material.history.filter(({ kind, s, sequence }) => kind === 'begin' && s === 'hook' && sequence > 1),
  )
  const record = random.pick(numbered)
  if (record === undefined) return undefined
  const other = numbered.find((one) => one.key === record.key && one.id !== record.id)
  if (other === undefined) return undefined
  const { epoch, sequence } = other
  const history = material.history.map((one) => (one === record ? { ...one, epoch, sequence } : one))
  return { ...material, history, ids: [record.id, other.id], what: `hook event ${record.id}` }
}
