/** Events and deliveries that vanish, and some that should never have been. */
import { owedTo } from '../checker/model.js'
import { attemptOf, cached, deliveriesOf, finalsOf, isOf, publicationOf, sorted, without } from './places.js'

export const losing = {
  'an acknowledged event vanishes': loseEvent,
  'one delivery vanishes': loseDelivery,
  'an event that was rolled back is delivered': deliverUndone,
  'an idempotent publish is stored twice': doublePublish,
  'a payload is changed on its way': changePayload,
}

function loseEvent(material, random) {
  const acked = cached(material, 'acked', () =>
    [...material.model.publications.values()].filter(
      ({ fate, ids, type, tags }) => fate === 'acked' && ids.size > 0 && owedTo({ type, tags }).length > 0,
    ),
  )
  if (acked.length === 0) return undefined
  const [id] = random.pick(acked).ids
  const seen = owedTo(publicationOf(material, id)).filter((s) => isSeen(material, s, id))
  if (seen.length === 0) return undefined
  const { deliveries, letters, events, ledger, stored } = material.answers
  const answers = {
    ...material.answers,
    deliveries: deliveries.filter((one) => one.event_id !== id),
    letters: letters.filter((one) => one.event_id !== id),
    events: events.filter((one) => one.id !== id),
    ledger: ledger.filter((one) => one.id !== id),
    stored: stored?.filter((one) => one.id !== id),
  }
  return { history: without(material.history, { id }), answers, ids: [id], what: `event ${id}` }
}

/** One of which nothing is left is nothing that could vanish. */
const isSeen = (material, s, id) =>
  finalsOf(material).has(`${s} ${id}`) || material.model.deliveries.has(`${s} ${id}`)

function loseDelivery(material, random) {
  const several = cached(material, 'several', () =>
    deliveriesOf(material).filter(({ id }) => owedTo(publicationOf(material, id) ?? none).length > 1),
  )
  if (several.length === 0) return undefined
  const { s, id } = random.pick(several)
  const isOther = (one) => one.event_id !== id || one.subscriber !== s
  const { deliveries, letters } = material.answers
  const answers = {
    ...material.answers,
    deliveries: deliveries.filter(isOther),
    letters: letters.filter(isOther),
  }
  return { history: without(material.history, { s, id }), answers, ids: [id], what: `${s} event ${id}` }
}
const none = { type: '' }

function deliverUndone(material, random) {
  const undone = cached(material, 'undone', () =>
    [...material.model.operations.values()]
      .filter(({ undone, type }) => type === 'ok' && undone?.length > 0)
      .flatMap(({ undone, events, answers, answeredAt }) =>
        events.flatMap(({ u, type }, place) =>
          undone.includes(u) ? [{ u, s: owedTo({ type })[0], id: answers[place].id, answeredAt }] : [],
        ),
      )
      .filter(({ s, id }) => s !== undefined && id !== undefined),
  )
  if (undone.length === 0) return undefined
  const { u, s, id, answeredAt } = random.pick(undone)
  const like = random.pick(deliveriesOf(material).filter((one) => one.s === s))
  if (like === undefined) return undefined
  const [first] = like.attempts
  const delivery = { s, id, attempts: [{ ...first, u }] }
  const from = answeredAt + random.integer(1, 500) * 1_000
  const records = attemptOf(material, delivery, { from, to: from + 5_000, outcome: 'ok' })
  return { ...material, history: sorted(material.history, records), ids: [id], what: `${s} event ${id}` }
}

/** Whoever begins it first gets other bytes. */
function changePayload(material, random) {
  const delivery = random.pick(deliveriesOf(material))
  const { s, id } = delivery
  const first = material.history.find((record) => record.kind === 'begin' && isOf(record, delivery))
  const changed = { ...first, hash: 'other' }
  const history = material.history.map((record) => (record === first ? changed : record))
  return { ...material, history, ids: [id], what: `${s} event ${id}` }
}

/** Both are delivered. */
function doublePublish(material, random) {
  const keyed = cached(material, 'keyed', () =>
    deliveriesOf(material).filter(({ id }) => publicationOf(material, id)?.idem !== undefined),
  )
  if (keyed.length === 0) return undefined
  const delivery = random.pick(keyed)
  const { s, id, attempts } = delivery
  const other = Math.max(...material.model.uidById.keys()) + 1
  const from = attempts.at(-1).begunAt + random.integer(1, 1_000) * 1_000
  const times = { from, to: from + 5_000, outcome: 'ok' }
  const records = attemptOf(material, { ...delivery, id: other }, times)
  const what = `${s} event ${id}`
  return { ...material, history: sorted(material.history, records), ids: [id, other], what }
}
