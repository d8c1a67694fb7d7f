/** Final answers that are not true. */
import { cached, finalsOf } from './places.js'

export const counting = {
  'an effect is missing': (material, random) => changeEffect(material, random, -1),
  'an effect is doubled': (material, random) => changeEffect(material, random, 1),
  "a queue's depth is wrong": falsifyDepth,
  "an event's status is wrong": falsifyStatus,
  'a dead letter is missing': loseLetter,
  'a dead letter is invented': inventLetter,
  "a delivery's attempts are miscounted": (material, random) => miscount(material, random, 'attempt_count'),
  'a list leaves something out': shortenWalk,
  'a list has something twice': doubleInWalk,
  'a row is left in a table of what waits': leaveRow,
  "a delivery's failures are miscounted": (material, random) => miscount(material, random, 'failures'),
}

const withAnswers = (material, answers, rest) => ({
  history: material.history,
  answers: { ...material.answers, ...answers },
  ...rest,
})

function changeEffect(material, random, by) {
  const { ledger } = material.answers
  const effect = random.pick(ledger)
  if (effect === undefined) return undefined
  const { id, rows } = effect
  const changed = ledger.map((one) => (one === effect ? { id, rows: rows + by } : one))
  const rest = { ids: [id], what: `ledger event ${id}` }
  return withAnswers(material, { ledger: changed.filter((one) => one.rows > 0) }, rest)
}

function falsifyDepth(material, random) {
  const queue = random.pick(material.answers.queues)
  const wrong = { ...queue, depth: queue.depth + random.integer(1, 5) }
  const queues = material.answers.queues.map((one) => (one === queue ? wrong : one))
  return withAnswers(material, { queues }, { what: queue.id })
}

const statuses = ['COMPLETED', 'FAILED', 'EXPIRED', 'CANCELLED', 'COMPLETED_WITH_ERRORS', 'PENDING']

function falsifyStatus(material, random) {
  const event = random.pick(material.answers.events.filter(({ type }) => !type?.startsWith('posthorn.')))
  if (event === undefined) return undefined
  const status = random.pick(statuses.filter((one) => one !== event.status))
  const events = material.answers.events.map((one) => (one === event ? { ...one, status } : one))
  const what = `event ${event.id}: ${status} instead of ${event.status}`
  return withAnswers(material, { events }, { ids: [event.id], what })
}

function loseLetter(material, random) {
  const { letters } = material.answers
  const finals = cached(
    material,
    'by id',
    () => new Map([...finalsOf(material).values()].map((d) => [d.id, d])),
  )
  const open = letters.filter(({ manual_retry_at: at, message_id: id }) => at === null && finals.has(id))
  const letter = random.pick(open)
  if (letter === undefined) return undefined
  const { event_id: id, subscriber: s } = letter
  const rest = { ids: [id], what: `${s} event ${id}` }
  return withAnswers(material, { letters: letters.filter((one) => one !== letter) }, rest)
}

function inventLetter(material, random) {
  const { letters, deliveries } = material.answers
  const alive = random.pick(deliveries.filter(({ status }) => status === 'delivered'))
  if (alive === undefined) return undefined
  const { id: messageId, event_id: id, subscriber: s } = alive
  const letter = { message_id: messageId, event_id: id, subscriber: s, kind: 'buried', manual_retry_at: null }
  return withAnswers(material, { letters: [...letters, letter] }, { ids: [id], what: `${s} event ${id}` })
}

function miscount(material, random, field) {
  const { deliveries } = material.answers
  const delivery = random.pick(deliveries.filter(({ status }) => status === 'delivered'))
  if (delivery === undefined) return undefined
  const wrong = { ...delivery, [field]: delivery[field] + random.integer(1, 3) }
  const changed = deliveries.map((one) => (one === delivery ? wrong : one))
  const { event_id: id, subscriber: s } = delivery
  return withAnswers(material, { deliveries: changed }, { ids: [id], what: `${s} event ${id}` })
}

/** Of a walk that is compared with another. */
function changeWalk(material, random, change) {
  const { walks = [], stored = [] } = material.answers
  const kept = cached(
    material,
    'kept',
    () => new Set(stored.filter(({ type }) => !type.startsWith('typed.')).map(({ id }) => id)),
  )
  const walk = random.pick(walks)
  const place = random.integer(0, (walk?.names.length ?? 0) - 1)
  if (walk === undefined || walk.names.length === 0 || !kept.has(walk.eventIds[place])) return undefined
  const changed = { ...walk, names: change(walk.names, place), eventIds: change(walk.eventIds, place) }
  const what = `${walk.path}: ${walk.names[place]}`
  return withAnswers(material, { walks: walks.map((one) => (one === walk ? changed : one)) }, { what })
}

function shortenWalk(material, random) {
  return changeWalk(material, random, (list, place) => list.toSpliced(place, 1))
}

function doubleInWalk(material, random) {
  return changeWalk(material, random, (list, place) => [...list, list[place]])
}

function leaveRow(material, random) {
  const table = random.pick(Object.keys(material.answers.left))
  return withAnswers(material, { left: { ...material.answers.left, [table]: 1 } }, { what: table })
}
