/** Strict order within each lane. */
import { passing } from '../topology.js'
import { concerned, isDoubtful, leaseEndOf, touchesOf } from './model.js'

const moved = new Set(['redrive', 'replay', 'retry', 'bury', 'lane retry', 'lane skip', 'lane discard'])

export function findDisorder(model) {
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
  return [...lanes].flatMap(([lane, members]) => {
    members.sort((a, b) => a.attempts[0].begunAt - b.attempts[0].begunAt)
    return [
      ...findOutOfTurn(model, lane, members),
      ...findTogether(model, lane, members),
      ...findOvertaken(model, lane, members),
    ]
  })
}

/** Undefined: it has none, or nobody can say which, or it was never attempted. */
function laneOf(model, { s, id, attempts }) {
  const publication = model.publications.get(model.uidById.get(id))
  if (publication === undefined || attempts.length === 0 || passing.includes(s)) return undefined
  const pointers = model.changes.filter(
    (one) => one.s === s && one.options !== undefined && 'ordering_key' in one.options,
  )
  const deployed = model.changes.filter(
    (one) => one.s === s && one.options !== undefined && 'orderingKey' in one.options,
  )
  const changes = [...pointers, ...deployed].filter((one) => one.s !== 'plain')
  const key = s === 'hook' ? attempts[0].key : publication.key
  if (changes.length === 0) {
    if (s === 'pointer') return publication.isUnreadable ? undefined : `${s} lane ${publication.p}`
    return key == null ? undefined : `${s} lane ${key}`
  }
  // Of one that changes its pointer only webhooks say which lane it is.
  return s === 'hook' && key != null ? `${s} lane ${key}` : undefined
}

/** What was acknowledged before another's publish began comes first; within one call, the order given. */
function findOutOfTurn(model, lane, members) {
  const found = []
  const places = new Map()
  let earliest
  for (const delivery of members.toReversed()) {
    const { s, id } = delivery
    const publication = model.publications.get(model.uidById.get(id))
    if (publication.delayMs !== undefined || wasMoved(model, delivery, publication)) continue
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

/** An operator may have sent it elsewhere. By a filter only what was dead: so it had expired or was buried before. */
function wasMoved(model, delivery, { expiresMs }) {
  const touches = touchesOf(model, delivery).filter((one) => moved.has(one.touches))
  return touches.some((one) => one.ids !== undefined || expiresMs !== undefined)
}

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
      const wasTaken = touchesOf(model, last).some(
        ({ touches }) => touches === 'reset' || touches === 'cancel',
      )
      const isGone =
        attempt.begunAt > leaseEndOf(model, last) ||
        last.lostAt !== undefined ||
        model.deaths.some(({ pid, at }) => pid === last.pid && at < attempt.begunAt + 1_000_000)
      if (
        !wasTaken &&
        !isGone &&
        !isDoubtful(model, [...concerned(model, last), attempt.pid], last.begunAt, attempt.begunAt)
      ) {
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
    const touches = [...touchesOf(model, delivery), ...touchesOf(model, next)].filter(
      (one) => moved.has(one.touches) || one.touches === 'cancel' || one.touches === 'reset',
    )
    const pids = delivery.attempts.flatMap((attempt) => concerned(model, attempt))
    if (touches.length > 0 || isDoubtful(model, pids, delivery.attempts[0].begunAt, late.begunAt)) continue
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
