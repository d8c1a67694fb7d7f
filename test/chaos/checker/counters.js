/** What the hub tells in sum agrees with what it tells in detail, and nothing is left where nothing waits. */
import { hookNames, remote } from '../topology.js'
import { clockAheadMs, concernedUnseen, effectEndOf, isDoubtful, mayHaveBeenLeased } from './excuses.js'

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
    ...findWrongCounts(model, answers),
    ...findGrowth(answers, waiting),
    ...findSleepers(model, answers),
  ]
}

const ended = { delivered: 'completed', dlq: 'buried', expired: 'expired', cancelled: 'cancelled' }

const withErrors = 'COMPLETED_WITH_ERRORS'

/** The status of an event follows from those of its deliveries; one that was finalized with errors is done, with errors. */
function findWrongStatuses(model, { events, deliveries }) {
  const finalized = new Set(
    [...model.deliveries.values()]
      .filter(({ s, attempts }) => s === 'polled' && attempts.some(({ outcome }) => outcome === 'bury'))
      .map(({ id }) => id),
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
  const finals = new Map(deliveries.map((one) => [one.id, one]))
  const isDead = ({ status } = {}) => status === 'dlq' || status === 'expired'
  const open = letters.filter((one) => one.manual_retry_at === null && one.message_id !== null)
  const named = new Set(open.map((one) => one.message_id))
  const without = deliveries.filter(
    (one) => isDead(one) && !named.has(one.id) && !mayHaveLostLetter(model, one),
  )
  const beyond = open.filter(({ message_id: id }) => finals.has(id) && !isDead(finals.get(id)))
  return [
    ...without.map(({ event_id: id, subscriber: s, status }) => ({
      rule: 'counter',
      s,
      id,
      text: `${s} event ${id} is ${status} and has no open dead letter`,
    })),
    ...beyond.map(({ event_id: id, subscriber: s }) => ({
      rule: 'counter',
      s,
      id,
      text: `${s} event ${id} has an open dead letter and is not dead`,
    })),
  ]
}

/** A prune removes letters that are four times as old as what else it removes. */
const lettersOlder = 4
const skewMs = 2_000

function mayHaveLostLetter(model, { event_id: id }) {
  const publication = model.publications.get(model.uidById.get(id))
  if (publication === undefined) return true
  // The letter may be of any moment since: one that was written while the clock was back looks older than its event.
  const { invokedAt } = publication
  const moments = [invokedAt, ...model.steps.map(({ at }) => at + 1).filter((at) => at > invokedAt)]
  return model.removals.some(
    (one) =>
      one.name === 'prune' &&
      moments.some(
        (from) =>
          from < effectEndOf(one) &&
          clockAheadMs(model, from, effectEndOf(one)) >= one.olderThanMs * lettersOlder - skewMs,
      ),
  )
}

/** What is told of a delivery's attempts agrees with those that began, if nothing kept them from being counted. */
function findWrongCounts(model, { deliveries }) {
  const found = []
  for (const final of deliveries) {
    const { subscriber: s, event_id: id, attempt_count: told, failures } = final
    const publication = model.publications.get(model.uidById.get(id))
    const delivery = model.deliveries.get(`${s} ${id}`) ?? { attempts: [], settled: [] }
    const { attempts } = delivery
    if (publication === undefined) continue
    const isRemote = remote.includes(s) || s === 'polled'
    if (isRemote && mayHaveBeenLeased(model, publication, { s, id })) continue
    const isHarmed =
      wasHarmed(model, publication, { s, attempts }) || wasLostUnbegun(model, { s, id, attempts })
    const unbegun = countHandedBackLate(model, delivery)
    const most =
      isHarmed && hookNames.includes(s)
        ? Number.POSITIVE_INFINITY
        : attempts.length + unbegun + (isHarmed ? 1 : 0)
    if (told > most) {
      const text = `${s} event ${id} tells ${told} attempts of which ${attempts.length} began`
      found.push({ rule: 'counter', s, id, text })
    }
    const failedMost = isHarmed ? most : attempts.filter(mayHaveFailed).length + unbegun
    if (failures > failedMost) {
      const text = `${s} event ${id} tells ${failures} failures of which ${failedMost} happened`
      found.push({ rule: 'counter', s, id, text })
    }
  }
  return found
}

/** A pull worker that ends well after its lease did is refused, and the end of the lease was a failure. */
const mayHaveFailed = ({ outcome, token, isSettled }) =>
  outcome !== 'ok' || (token !== undefined && !isSettled)

/**
 * An attempt that a process died with may be counted though nobody saw it begin. A request that never reaches its receiver is
 * counted as well, at any time since the event was published.
 */
function wasHarmed(model, publication, { s, attempts }) {
  if (attempts.length === 0) return true
  const isHook = hookNames.includes(s)
  return attempts.some((one) => {
    const from = isHook ? publication.invokedAt : one.begunAt
    return isDoubtful(model, concernedUnseen(model, one), from, (one.endedAt ?? one.begunAt) + 1_000_000)
  })
}

/**
 * A delivery that was out when its process vanished is marked as begun before its handler is called. If the answer to the mark
 * gets lost, the handler is not called, and the attempt is charged when the lease ends, unless the hand-back comes in time.
 */
function wasLostUnbegun({ losses }, { s, id, attempts }) {
  const isUnbegun = ({ pid }) => !attempts.some((one) => one.pid === pid)
  const refused = losses.filter((one) => one.s === s && one.id === id && one.why === handedBackLate)
  return refused.some(isUnbegun)
}
const handedBackLate = 'its settlement came too late'

/**
 * A worker of the client does not say what it has lost, but its server says what was handed back. Each time that it had the
 * delivery for longer than its lease, and handed it back without an attempt, the hand-back may have come too late.
 */
function countHandedBackLate({ carries, jumps }, { name, attempts, settled }) {
  const carriedAt = carries.get(name) ?? []
  return settled.filter(({ settlement, isServed, at }, place) => {
    if (!isServed || settlement !== 'release') return false
    const since = settled[place - 1]?.at ?? 0
    const from = carriedAt.find((one) => one > since)
    if (from === undefined || attempts.some(({ begunAt }) => begunAt > since && begunAt < at)) return false
    return at - from > clientLeaseUs || jumps.some((one) => one.from < at && one.to > from)
  }).length
}
const clientLeaseUs = 3_000_000

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
