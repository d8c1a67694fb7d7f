/** What the hub tells in sum agrees with what it tells in detail, and nothing is left where nothing waits. */

export function findWrongCounters(model, answers) {
  const found = []
  const waiting = answers.deliveries.filter(({ status }) =>
    ['pending', 'failed', 'delivering'].includes(status),
  )
  for (const { id: queue, depth, status } of answers.queues) {
    const own = waiting.filter(({ subscriber }) => subscriber === queue).length
    if (depth !== own)
      found.push({
        rule: 'counter',
        text: `queue ${queue} tells a depth of ${depth} while ${own} of its deliveries wait`,
      })
    if (status !== 'active')
      found.push({ rule: 'counter', text: `queue ${queue} is ${status} after everything was resumed` })
  }
  return [
    ...found,
    ...findWrongStatuses(model, answers),
    ...findWrongLetters(model, answers),
    ...findGrowth(answers, waiting),
    ...findSleepers(model, answers),
  ]
}

const ended = { delivered: 'completed', dlq: 'buried', expired: 'expired', cancelled: 'cancelled' }

const withErrors = 'COMPLETED_WITH_ERRORS'

/** The status of an event follows from those of its deliveries; one that was finalized with errors is done, with errors. */
function findWrongStatuses(model, { events, deliveries }) {
  const finalized = new Set(
    [...model.deliveries.values()].filter(({ s }) => s === 'polled').map(({ id }) => id),
  )
  const byEvent = new Map()
  for (const one of deliveries)
    byEvent.set(one.event_id, [...(byEvent.get(one.event_id) ?? []), ended[one.status] ?? 'waiting'])
  return events
    .filter(({ type }) => !type?.startsWith('posthorn.'))
    .map(({ id, status }) => ({ id, status, expected: statusOf(byEvent.get(id) ?? []) }))
    .filter(
      ({ id, status, expected }) => status !== expected && !(finalized.has(id) && status === withErrors),
    )
    .slice(0, 5)
    .map(({ id, status, expected }) => ({
      rule: 'counter',
      id,
      text: `event ${id} is ${status} while its deliveries make it ${expected}`,
    }))
}

function statusOf(states) {
  if (states.includes('waiting')) return 'PENDING'
  const counted = states.filter((state) => state !== 'cancelled')
  if (states.length > 0 && counted.length === 0) return 'CANCELLED'
  if (counted.every((state) => state === 'completed')) return 'COMPLETED'
  if (counted.every((state) => state === 'expired')) return 'EXPIRED'
  return counted.includes('completed') ? 'COMPLETED_WITH_ERRORS' : 'FAILED'
}

/** A delivery that is dead has a letter that nobody has retried, and the other way round. */
function findWrongLetters(model, { letters, deliveries }) {
  const isErased = [...model.operations.values()].some(({ name }) => name === 'prune')
  if (isErased) return []
  const dead = new Set(
    deliveries.filter(({ status }) => status === 'dlq' || status === 'expired').map(({ id }) => id),
  )
  const open = new Set(
    letters.filter(({ manual_retry_at: retriedAt }) => retriedAt === null).map(({ message_id: id }) => id),
  )
  const without = deliveries.filter(({ id }) => dead.has(id) && !open.has(id))
  const beyond = letters.filter(({ message_id: id }) => id !== null && open.has(id) && !dead.has(id))
  return [
    ...without.slice(0, 3).map(({ event_id: id, subscriber: s, status }) => ({
      rule: 'counter',
      s,
      id,
      text: `${s} event ${id} is ${status} and has no open dead letter`,
    })),
    ...beyond.slice(0, 3).map(({ event_id: id, subscriber: s }) => ({
      rule: 'counter',
      s,
      id,
      text: `${s} event ${id} has an open dead letter and is not dead`,
    })),
  ]
}

/** Where nothing waits, nothing is left in the tables of what waits. */
function findGrowth({ left = {} }, waiting) {
  if (waiting.length > 0) return []
  return Object.entries(left)
    .filter(([, rows]) => rows > 0)
    .map(([table, rows]) => ({
      rule: 'growth',
      text: `${rows} rows are left in ${table} though nothing waits`,
    }))
}

const lostWakeUps = /^posthorn_wakeups_lost_total(?:\{[^}]*\})? (\S+)$/gm

/** What upkeep had to wake was asleep, though nobody may have noticed. Counters end with their processes, records stay. */
function findSleepers({ woken }, { metrics = [] }) {
  const counted = metrics
    .flatMap((text) => [...text.matchAll(lostWakeUps)])
    .reduce((sum, [, value]) => sum + Number(value), 0)
  const found = woken.map(({ what, s, key, at }) => ({
    rule: 'asleep',
    s,
    text: `upkeep had to wake a ${what} of ${s}${key === null ? '' : `, ${key}`} at ${at}`,
  }))
  if (counted > found.length)
    found.push({ rule: 'asleep', text: `posthorn_wakeups_lost_total is ${counted} over all processes` })
  return found
}
