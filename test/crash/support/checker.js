/**
 * Judges a history. It knows nothing of how the hub works: only what was published, what handlers began and
 * ended, and what was done to the processes.
 *
 * @typedef {{ id: number, key: string | null, beganAt: number, ackedAt: number | null, batch?: number, place?: number }} Publication
 *   `ackedAt` null: nobody knows whether it was committed. Events of one batch are in the order of `place`.
 * @typedef {{ pid: number, at: number }} Death
 * @typedef {{ pid: number, from: number }} Freeze from then on its leases may have ended, though it lives
 * @typedef {object} Facts
 * @property {Publication[]} published
 * @property {string[]} subscriptions that each of them is owed to, unless `owed` says otherwise
 * @property {(publication: Publication) => string[]} [owed]
 * @property {Death[]} [deaths]
 * @property {Freeze[]} [freezes]
 * @property {{ delivery: string, at: number }[]} [expiries] leases that have ended by the clock: see leases.js
 * @property {{ from: number, to: number }[]} [outages] from when the database was killed to when the last lease of
 *   before has ended: it may have forgotten them, and a worker may go on in good faith
 * @property {Set<number>} [buried] events that were buried without an attempt of their own to say so
 */

/**
 * @param {object[]} history
 * @param {Facts} facts
 * @returns {string[]} what should not have happened
 */
export function judge(history, facts) {
  const deliveries = deliveriesOf(history, facts)
  const violations = [
    ...findLost(deliveries, facts),
    ...findPhantoms(deliveries, facts),
    ...[...deliveries.values()].flatMap((delivery) => [
      ...findOverlaps(delivery),
      ...findSettledTwice(delivery),
      ...findUnanswered(delivery, facts),
    ]),
    ...findDisorder(deliveries, facts),
  ]
  if (violations.length === 0) return []
  const more = violations.length > violationsMax ? [`and ${violations.length - violationsMax} more`] : []
  return [...violations.slice(0, violationsMax), ...more, ...timelines(history, violations, facts)]
}

const violationsMax = 20
const timelinesMax = 4

/** All that is known of the first events that something is wrong with. */
function timelines(history, violations, { deaths = [], freezes = [], outages = [] }) {
  const ids = [
    ...new Set(violations.flatMap((violation) => violation.match(/(?<![-\w])\d+\b/g)?.map(Number) ?? [])),
  ]
  const harm = [
    ...deaths.map(({ pid, at }) => ({ at, pid, kind: 'killed' })),
    ...freezes.map(({ pid, from }) => ({ at: from, pid, kind: 'frozen' })),
    ...outages.map(({ from }) => ({ at: from, pid: 'the database', kind: 'killed' })),
  ]
  const known = ids.filter((id) => history.some((record) => record.id === id)).slice(0, timelinesMax)
  return known.map((id) => {
    const records = history.filter((record) => record.id === id)
    const from = records[0].at
    const to = records.at(-1).at
    const all = [...records, ...harm.filter(({ at }) => at > from - 1e6 && at < to + 1e6)].sort(
      (a, b) => a.at - b.at,
    )
    const told = all.map(({ at, pid, kind, outcome, settlement }) => {
      return `${Math.round((at - from) / 1000)} ms ${pid} ${kind} ${outcome ?? settlement ?? ''}`.trim()
    })
    return `${id}: ${told.join('; ')}`
  })
}

/** How many deliveries were tried more than once, and so on: what makes a history worth judging. */
export function tally(history) {
  const of = (kind) => history.filter((record) => record.kind === kind)
  const begun = of('begin')
  return {
    attempts: begun.length,
    repeats: begun.length - new Set(begun.map((record) => `${record.subscription} ${record.id}`)).size,
    failed: of('end').filter((record) => record.outcome === 'fail').length,
    lost: of('lost').length,
  }
}

/** What is lost for another reason is lost before it began: there is no attempt to answer. */
const tooLate = 'its settlement came too late'

const finalOutcomes = new Set(['ok', 'bury'])
const finalSettlements = new Set(['complete', 'bury'])

/** Attempts by delivery, each with the time until which its lease was surely in force. */
function deliveriesOf(history, { deaths = [], freezes = [], expiries = [], outages = [] }) {
  const deliveries = new Map()
  const open = new Map()
  const deathOf = new Map(deaths.map(({ pid, at }) => [pid, at]))
  for (const record of history) {
    if (!['begin', 'end', 'settled', 'lost'].includes(record.kind)) continue
    const name = `${record.subscription} ${record.id}`
    const delivery = deliveries.get(name) ?? { name, id: record.id, key: null, attempts: [], settled: [] }
    deliveries.set(name, delivery)
    const run = `${record.pid} ${record.no}`
    if (record.kind === 'begin') {
      const attempt = { ...record, begunAt: record.at, endedAt: null, outcome: null, answer: null }
      delivery.subscription = record.subscription
      delivery.key = record.key ?? null
      delivery.attempts.push(attempt)
      open.set(run, attempt)
    } else if (record.kind === 'end') {
      const attempt = open.get(run)
      attempt.endedAt = record.at
      attempt.outcome = record.outcome
    } else {
      const attempt = delivery.attempts.find(
        ({ pid, endedAt, answer }) => pid === record.pid && endedAt !== null && answer === null,
      )
      if (attempt !== undefined && (record.why ?? tooLate) === tooLate) attempt.answer = record.kind
      if (record.kind === 'settled' && finalSettlements.has(record.settlement)) delivery.settled.push(record)
    }
  }
  const expiriesOf = new Map()
  for (const { delivery, at } of expiries) expiriesOf.set(delivery, [...(expiriesOf.get(delivery) ?? []), at])
  for (const { name, attempts } of deliveries.values()) {
    for (const attempt of attempts) {
      const { pid, begunAt, endedAt } = attempt
      const end = endedAt ?? deathOf.get(pid) ?? Number.POSITIVE_INFINITY
      const doubts = [
        ...freezes.filter((freeze) => freeze.pid === pid && freeze.from < end).map((freeze) => freeze.from),
        ...(expiriesOf.get(name) ?? []).filter((at) => at > begunAt && at < end),
        ...outages
          .filter(({ from, to }) => from < end && to > begunAt)
          .map(({ from }) => Math.max(begunAt, from)),
      ]
      attempt.heldUntil = Math.min(end, ...doubts)
    }
  }
  return deliveries
}

/** Ended for good, and not refused. A worker that tried it twice is told twice, without saying of which. */
function isDone({ attempts }, { pid, outcome }) {
  if (!finalOutcomes.has(outcome)) return false
  const answers = attempts.filter((attempt) => attempt.pid === pid).map((attempt) => attempt.answer)
  return !answers.includes('lost') || answers.includes('settled')
}

function owedTo(publication, { subscriptions, owed }) {
  return owed === undefined ? subscriptions : owed(publication)
}

function findLost(deliveries, facts) {
  const { published, buried = new Set() } = facts
  const lost = []
  for (const publication of published) {
    if (publication.ackedAt === null || buried.has(publication.id)) continue
    for (const subscription of owedTo(publication, facts)) {
      const delivery = deliveries.get(`${subscription} ${publication.id}`)
      const done = delivery?.attempts.some((attempt) => isDone(delivery, attempt))
      if (!done) lost.push(`lost: ${subscription} ${publication.id} was acknowledged and never done`)
    }
  }
  return lost
}

function findPhantoms(deliveries, { published }) {
  const known = new Set(published.map(({ id }) => id))
  return [...deliveries.values()]
    .filter(({ id, attempts }) => !known.has(id) && attempts.length > 0)
    .map(({ name }) => `phantom: ${name} was never published, or was rolled back`)
}

/** Two attempts of one delivery at once, while the first one's lease held. */
function findOverlaps({ name, attempts }) {
  const found = []
  let held = null
  for (const attempt of attempts) {
    if (held !== null && attempt.begunAt < held.heldUntil) {
      found.push(
        `twice at once: ${name} began in ${attempt.pid} while ${held.pid} held it (attempt ${attempt.attempt})`,
      )
    }
    if (held === null || attempt.heldUntil > held.heldUntil) held = attempt
  }
  return found
}

function findSettledTwice({ name, attempts, settled }) {
  const [first, second] = settled
  if (first === undefined) return []
  const found = attempts
    .filter((attempt) => attempt.begunAt > first.at)
    .map((attempt) => `again: ${name} began in ${attempt.pid} after its settlement was acknowledged`)
  if (second !== undefined) found.push(`counted twice: ${name} by ${first.pid} and ${second.pid}`)
  return found
}

/** A worker that lives learns what became of each of its attempts. */
function findUnanswered({ name, attempts }, { deaths = [] }) {
  const dead = new Set(deaths.map(({ pid }) => pid))
  return (
    attempts
      .filter((attempt) => attempt.endedAt !== null && attempt.answer === null && !dead.has(attempt.pid))
      // What was told to stop has been handed back by then.
      .filter((attempt) => attempt.outcome !== 'aborted')
      .map((attempt) => `unanswered: ${name} ended in ${attempt.pid} and nothing came of it`)
  )
}

function findDisorder(deliveries, { published, buried = new Set() }) {
  const publications = new Map(published.map((publication) => [publication.id, publication]))
  const lanes = new Map()
  for (const delivery of deliveries.values()) {
    if (delivery.key === null || delivery.attempts.length === 0) continue
    const lane = `${delivery.subscription} lane ${delivery.key}`
    lanes.set(lane, [...(lanes.get(lane) ?? []), delivery])
  }
  return [...lanes].flatMap(([lane, members]) => {
    members.sort((a, b) => a.attempts[0].begunAt - b.attempts[0].begunAt)
    return [...findOutOfTurn(lane, members, publications), ...findEarlyBegins(lane, members, buried)]
  })
}

/** Whatever was acknowledged before another's publish began comes first; within a batch, the order given. */
function findOutOfTurn(lane, members, publications) {
  const found = []
  let earliest = null
  const places = new Map()
  for (const { id } of members.toReversed()) {
    const publication = publications.get(id)
    if (publication === undefined) continue
    const { batch, place, beganAt, ackedAt } = publication
    if (earliest !== null && earliest.ackedAt < beganAt) {
      found.push(
        `out of turn: ${lane}: ${id} before ${earliest.id}, which was acknowledged before it was published`,
      )
    }
    if (ackedAt !== null && (earliest === null || ackedAt < earliest.ackedAt)) earliest = publication
    if (batch === undefined) continue
    if (places.has(batch) && places.get(batch) < place) {
      found.push(`out of turn: ${lane}: ${id} before one that its own batch has ahead of it`)
    }
    places.set(batch, Math.min(place, places.get(batch) ?? place))
  }
  return found
}

/** The next of a lane begins after the one before it is over for good, and only the head is ever repeated. */
function findEarlyBegins(lane, members, buried) {
  const found = []
  for (const [position, { id, attempts }] of members.entries()) {
    const next = members[position + 1]
    if (next === undefined) continue
    const begunAt = next.attempts[0].begunAt
    const over = attempts.some((attempt) => attempt.endedAt <= begunAt && isDone(members[position], attempt))
    if (!over && !buried.has(id)) found.push(`too early: ${lane}: ${next.id} began before ${id} was settled`)
    if (attempts.some((attempt) => attempt.begunAt > begunAt)) {
      found.push(`not the head: ${lane}: ${id} was repeated after ${next.id} had begun`)
    }
  }
  return found
}
