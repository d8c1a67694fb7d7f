/** Strict order within each lane. */
import { passing } from '../topology.js'
import { concerned, effectEndOf, isDoubtful, isTouched, leaseEndOf, mayHaveLostLease } from './excuses.js'

const moved = new Set(['redrive', 'replay', 'retry', 'bury', 'lane retry', 'lane skip', 'lane discard'])
const taken = new Set(['reset', 'cancel'])

export function findDisorder(model) {
  return lanesOf(model).flatMap(([lane, members]) => [
    ...findOutOfTurn(model, lane, members),
    ...findTogether(model, lane, members),
    ...findOvertaken(model, lane, members),
  ])
}

/** @returns the lanes by name, each with its deliveries by when they were first attempted */
export function lanesOf(model) {
  const lanes = new Map()
  for (const { attempts, ...rest } of model.deliveries.values()) {
    // Whoever begins after its lease has surely ended is too late, and not out of turn: its settlement will be refused.
    const inTime = attempts.filter((attempt) => attempt.begunAt < leaseEndOf(model, attempt))
    const delivery = { ...rest, attempts: inTime }
    const lane = laneOf(model, delivery)
    if (lane === undefined) continue
    if (lanes.has(lane)) lanes.get(lane).push(delivery)
    else lanes.set(lane, [delivery])
  }
  for (const members of lanes.values()) members.sort((a, b) => a.attempts[0].begunAt - b.attempts[0].begunAt)
  return [...lanes]
}

/** Undefined: it has none, or nobody can say which, or it was never attempted. */
function laneOf(model, { s, id, attempts }) {
  const publication = model.publications.get(model.uidById.get(id))
  if (publication === undefined || attempts.length === 0) return undefined
  if (wasRekeyed(model, publication, { s, id })) return undefined
  const life = lifeOf(model, publication, s)
  const key = laneKeyOf(model, publication, { s, attempts })
  return life === undefined || key == null ? undefined : `${s}${life} lane ${key}`
}

/** What is sent again after the subscription got another key is in the lane of that key. */
function wasRekeyed(model, { ackedAt }, delivery) {
  const changes = (model.changesBy.get(delivery.s) ?? []).filter(
    ({ options, answeredAt }) =>
      options !== undefined &&
      ('ordering_key' in options || 'orderingKey' in options) &&
      answeredAt > (ackedAt ?? 0),
  )
  return (
    changes.length > 0 && isTouched(model, delivery, moved, [changes[0].invokedAt, Number.POSITIVE_INFINITY])
  )
}

/** A subscription that is deleted and made again begins with new lanes. Undefined: nobody can say which one it was for. */
function lifeOf({ changesBy }, { invokedAt, ackedAt }, s) {
  if (!passing.includes(s)) return ''
  const ended = (changesBy.get(s) ?? []).filter((one) => one.deletes && one.type !== 'fail')
  const isUnsure = ended.some(
    (one) => one.invokedAt < (ackedAt ?? Number.POSITIVE_INFINITY) && effectEndOf(one) > invokedAt,
  )
  return isUnsure ? undefined : ` ${ended.filter((one) => one.invokedAt < invokedAt).length}`
}

/** By the pointer that was in force when the event was published: later changes are for later events. */
function laneKeyOf(model, publication, { s, attempts }) {
  // Webhooks say which lane they are of.
  if (s === 'hook') return attempts[0].key
  const { invokedAt, ackedAt, key, p, isUnreadable } = publication
  const byPointer = () => (isUnreadable ? undefined : p)
  const until = ackedAt ?? Number.POSITIVE_INFINITY
  const own = s === 'plain' ? [] : (model.changesBy.get(s) ?? [])
  const changes = own.filter(
    (one) =>
      one.options !== undefined &&
      ('ordering_key' in one.options || 'orderingKey' in one.options) &&
      one.invokedAt < until,
  )
  const last = changes.at(-1)
  if (last === undefined) return s === 'pointer' ? byPointer() : key
  const isSure =
    last.name === 'subscriber.change' &&
    last.type === 'ok' &&
    last.answeredAt < invokedAt &&
    changes.every((one) => one === last || effectEndOf(one) < last.invokedAt)
  if (!isSure) return undefined
  return last.options.ordering_key === null ? key : byPointer()
}

/** What was acknowledged before another's publish began comes first; within one call, the order given. */
function findOutOfTurn(model, lane, members) {
  const found = []
  const places = new Map()
  let earliest
  for (const delivery of members.toReversed()) {
    const { s, id } = delivery
    const publication = model.publications.get(model.uidById.get(id))
    if (publication.delayMs !== undefined || wasMoved(model, delivery)) continue
    if (earliest !== undefined && earliest.ackedAt < publication.invokedAt) {
      found.push({
        rule: 'order',
        s,
        id,
        text: `${lane}: event ${id} came before event ${earliest.id}, which was acknowledged before it was published`,
      })
    }
    if (publication.ackedAt !== null && (earliest === undefined || publication.ackedAt < earliest.ackedAt)) {
      earliest = { id, ackedAt: publication.ackedAt }
    }
    if (publication.calls > 1) continue
    const next = places.get(publication.op)
    if (next !== undefined && next.place < publication.place) {
      found.push({
        rule: 'order',
        s,
        id,
        text: `${lane}: event ${id} (place ${publication.place} of its call) came before event ${next.id} (place ${next.place})`,
      })
    }
    if (next === undefined || publication.place < next.place)
      places.set(publication.op, { id, place: publication.place })
  }
  return found
}

/** An operator may have sent it elsewhere before anybody began it. */
const wasMoved = (model, delivery) => isTouched(model, delivery, moved, [0, delivery.attempts[0].begunAt])

/** Two of a lane never run at once, whatever was done to either, unless a lease may have ended. */
function findTogether(model, lane, members) {
  const attempts = members.flatMap(({ id, s, attempts }) =>
    attempts.map((attempt) => ({ ...attempt, id, s })),
  )
  attempts.sort((a, b) => a.begunAt - b.begunAt)
  const found = []
  let last
  for (const attempt of attempts) {
    if (
      last !== undefined &&
      last.id !== attempt.id &&
      (last.endedAt ?? Number.POSITIVE_INFINITY) > attempt.begunAt
    ) {
      const isGone =
        last.lostAt !== undefined ||
        model.deaths.some(({ pid, at }) => pid === last.pid && at < attempt.begunAt + 1_000_000)
      const wasTaken = isTouched(model, last, taken, [last.begunAt, attempt.begunAt])
      if (!wasTaken && !isGone && !mayHaveLostLease(model, last, attempt.begunAt)) {
        found.push({
          rule: 'order',
          s: attempt.s,
          id: attempt.id,
          text: `${lane}: event ${attempt.id} began while event ${last.id} was under way`,
        })
      }
    }
    if (
      last === undefined ||
      (attempt.endedAt ?? Number.POSITIVE_INFINITY) >= (last.endedAt ?? Number.POSITIVE_INFINITY)
    )
      last = attempt
  }
  return found
}

/** Only the head is repeated: once a later one has begun, an earlier one does not come again. */
function findOvertaken(model, lane, members) {
  const found = []
  for (const [place, delivery] of members.entries()) {
    const next = members[place + 1]
    if (next === undefined) break
    const begunAt = next.attempts[0].begunAt
    const late = delivery.attempts.find((attempt) => attempt.begunAt > begunAt)
    if (late === undefined) continue
    const times = [delivery.attempts[0].begunAt, late.begunAt]
    const wasTouched = [delivery, next].some(
      (one) => isTouched(model, one, moved, times) || isTouched(model, one, taken, times),
    )
    const pids = delivery.attempts.flatMap((attempt) => concerned(model, attempt))
    if (wasTouched || isDoubtful(model, pids, ...times)) continue
    const { s, id } = delivery
    found.push({
      rule: 'order',
      s,
      id,
      text: `${lane}: event ${id} was repeated after event ${next.id} had begun`,
    })
  }
  return found
}
