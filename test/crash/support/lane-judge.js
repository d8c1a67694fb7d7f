/**
 * Judges what receivers of webhooks have seen. It knows nothing of how they are sent: only what was published, what came
 * and how it was answered, and which dead letters there are.
 *
 * @typedef {{ key: string, sequence: number, previous: number, skipped: number[] }} Place
 * @typedef {object} Request a record of kind `request`; one of kind `answer` with the same `no` says how it ended
 * @property {number} at
 * @property {number} no
 * @property {string} subscriber
 * @property {string} id the webhook's
 * @property {number} eventId
 * @property {number} attempt
 * @property {Place | null} lane
 * @property {string | null} verdict of the receiver's own checker
 * @typedef {object} Facts
 * @property {{ id: number, key: string | null }[]} published in the order of every lane, all of them acknowledged
 * @property {string[]} subscribers that each of them is owed to
 * @property {Set<string>} [dead] dead letters, as `subscriber event`
 * @property {{ delivery: string, at: number }[]} [expiries] leases that have ended by the clock (see leases.js), or were
 *   handed back by a sender that was told to stop
 * @property {Set<string>} [unheard] attempts whose answer came too late for who waited, as `subscriber event attempt`
 */

/**
 * @param {object[]} history
 * @param {Facts} facts
 * @returns {string[]} what should not have happened
 */
export function judgeLanes(history, facts) {
  const requests = requestsOf(history)
  const excuses = excusesOf(facts)
  const violations = [
    ...history
      .filter(({ kind }) => kind === 'forged')
      .map(({ subscriber, why }) => `forged: ${subscriber}: ${why}`),
    ...findChangedIds(requests),
    ...findLost(requests, facts),
    ...findMisnumbered(requests, facts),
    ...groupsOf(requests, turnOf).flatMap(findOverlaps),
    ...groupsOf(requests, laneOf).flatMap((lane) => findDisorder(lane, excuses)),
  ]
  if (violations.length <= violationsMax) return violations
  return [...violations.slice(0, violationsMax), `and ${violations.length - violationsMax} more`]
}

const violationsMax = 20

/** Requests in the order in which they came, each with its end. One that has none never ended. */
export function requestsOf(history) {
  const answers = new Map(
    history.filter(({ kind }) => kind === 'answer').map((record) => [record.no, record]),
  )
  return history
    .filter(({ kind }) => kind === 'request')
    .sort((a, b) => a.at - b.at)
    .map((request) => {
      const answer = answers.get(request.no)
      return {
        ...request,
        endedAt: answer?.at ?? Number.POSITIVE_INFINITY,
        outcome: answer?.outcome ?? 'none',
      }
    })
}

const deliveryOf = ({ subscriber, eventId }) => `${subscriber} ${eventId}`
const laneOf = ({ subscriber, lane }) => (lane === null ? null : `${subscriber} lane ${lane.key}`)
/** What is sent one at a time: a lane, or a delivery that is in none. */
const turnOf = (request) => laneOf(request) ?? deliveryOf(request)

/** Lists of those with the same name, without those that have none. */
function groupsOf(requests, nameOf) {
  const groups = new Map()
  for (const request of requests) {
    const name = nameOf(request)
    if (name === null) continue
    const group = groups.get(name)
    if (group === undefined) groups.set(name, [request])
    else group.push(request)
  }
  return [...groups.values()]
}

function findChangedIds(requests) {
  const ids = new Map()
  const found = []
  for (const request of requests) {
    const name = deliveryOf(request)
    const id = ids.get(name) ?? request.id
    ids.set(name, id)
    if (id !== request.id) found.push(`changed id: ${name} was ${id} and is ${request.id}`)
  }
  if (new Set(ids.values()).size < ids.size) found.push('changed id: two deliveries have the same')
  return found
}

function findLost(requests, { published, subscribers, dead = new Set() }) {
  const delivered = new Set(requests.filter(({ outcome }) => outcome === 'delivered').map(deliveryOf))
  return published
    .flatMap(({ id }) => subscribers.map((subscriber) => `${subscriber} ${id}`))
    .filter((name) => !delivered.has(name) && !dead.has(name))
    .map((name) => `lost: ${name} was neither delivered nor is it a dead letter`)
}

/** The nth of a lane has the number n, and nothing else has one. */
function findMisnumbered(requests, { published }) {
  const places = new Map()
  const latest = new Map()
  for (const { id, key } of published) {
    const sequence = key === null ? null : (latest.get(key) ?? 0) + 1
    if (key !== null) latest.set(key, sequence)
    places.set(id, { key, sequence })
  }
  return requests.flatMap((request) => {
    const { eventId, lane } = request
    const place = places.get(eventId)
    if (place === undefined) return [`phantom: ${deliveryOf(request)} was never published`]
    if (place.key === (lane?.key ?? null) && place.sequence === (lane?.sequence ?? null)) return []
    return [`misnumbered: ${deliveryOf(request)} is ${JSON.stringify(place)}, not ${JSON.stringify(lane)}`]
  })
}

function findOverlaps(requests) {
  const found = []
  let longest = null
  for (const request of requests) {
    if (longest !== null && request.at < longest.endedAt) {
      found.push(`two in flight: ${turnOf(request)}: event ${request.eventId} came during ${longest.eventId}`)
    }
    if (longest === null || request.endedAt > longest.endedAt) longest = request
  }
  return found
}

/** Each is the last one again, or the next after it, with all declared that was left out. */
function findDisorder(requests, excuses) {
  const found = []
  let last = null
  for (const request of requests) {
    const { sequence } = request.lane
    const lastSequence = last?.lane.sequence ?? 0
    const name = `${laneOf(request)}: ${sequence} (event ${request.eventId}) after ${lastSequence}`
    if (sequence < lastSequence) {
      found.push(`out of order: ${name}`)
      continue
    }
    if (sequence === lastSequence) {
      if (isTaken(last, request, excuses)) found.push(`repeated: ${name}, which was delivered`)
    } else found.push(...findGaps(request, last, excuses).map((gap) => `gap: ${name}: ${gap}`))
    if (request.verdict === 'gap' || request.verdict === 'out-of-order') {
      found.push(`verdict: ${name}: the receiver's own checker says ${request.verdict}`)
    }
    last = request
  }
  return found
}

function findGaps(request, last, excuses) {
  const { sequence, previous, skipped } = request.lane
  const declared = new Set(skipped)
  const lastSequence = last?.lane.sequence ?? 0
  const found = []
  for (let number = lastSequence + 1; number < sequence; number++) {
    if (!declared.has(number)) found.push(`${number} never came and is not declared skipped`)
  }
  if (sequence - previous - 1 !== skipped.length) found.push(`${previous} is said to be the one before`)
  if (last === null) return found
  if (isTaken(last, request, excuses)) {
    if (declared.has(lastSequence)) found.push(`${lastSequence} is declared skipped, but was delivered`)
  } else if (last.outcome !== 'delivered' && !declared.has(lastSequence)) {
    found.push(`${lastSequence} was not delivered and is not declared skipped`)
  }
  return found
}

/** It was delivered, and whoever sent it has lived to say so. */
function isTaken(request, next, { expiriesOf, unheard }) {
  if (request.outcome !== 'delivered') return false
  const name = deliveryOf(request)
  if (unheard.has(`${name} ${request.attempt}`)) return false
  return !(expiriesOf.get(name) ?? []).some((at) => at > request.at && at < next.at)
}

function excusesOf({ expiries = [], unheard = new Set() }) {
  const expiriesOf = new Map()
  for (const { delivery, at } of expiries) expiriesOf.set(delivery, [...(expiriesOf.get(delivery) ?? []), at])
  return { expiriesOf, unheard }
}
