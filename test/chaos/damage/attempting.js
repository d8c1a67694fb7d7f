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
  'an attempt beyond the bound': failOnceMore,
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
