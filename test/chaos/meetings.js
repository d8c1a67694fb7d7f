/** Where two features met, and what the harm hit: counted from the history and the final answers. */
import { owedTo } from './checker/model.js'

const closeUs = 50_000
const blockedUs = 5_000_000

export const meetings = [
  'a waiting chunk of a lane cancelled within 50 ms of the completion before it',
  'a waiting chunk of a lane expired within 50 ms of the completion before it',
  'a gate changed between burial and repair',
]

export function countMeetings(model, { history, answers }) {
  const ends = endsByDelivery(model, { history, answers })
  const near = (status) => ends.filter((one) => one.status === status && isClose(one)).length
  return {
    [meetings[0]]: near('cancelled'),
    [meetings[1]]: near('expired'),
    [meetings[2]]: countChangedGates(model),
    'kills with a lease held': countKills(model),
    'publishes of unknown fate': [...model.operations.values()].filter(
      ({ events, type }) => events !== undefined && type === 'info',
    ).length,
    'retries within a lane': countRetries(model, ({ key }) => key !== undefined),
    redeliveries: countRetries(model, () => true),
    'lanes that stood blocked for 5 s': countBlocked(model),
    'faults that overlapped': countOverlaps(model),
  }
}

const isClose = ({ endedAt, completedAt }) => Math.abs(endedAt - completedAt) <= closeUs

/** Deliveries that ended before anybody began them, with the completion of the one right before them in their lane. */
function endsByDelivery(model, { history, answers }) {
  const clock = readClock(history)
  if (clock === undefined) return []
  const ended = readEnds(history, answers)
  const lanes = new Map()
  for (const { u, key, calls, ids, op, place, type } of model.publications.values()) {
    const [id] = ids
    if (key === undefined || calls > 1 || id === undefined) continue
    for (const s of owedTo({ type, tags: undefined })) {
      const { status, at } = ended.get(`${s} ${id}`) ?? {}
      const endedAt = at === undefined ? undefined : clock.toMonotonicUs(Date.parse(at))
      const one = { u, op, place, status, endedAt, attempts: attemptsOf(model, s, id) }
      lanes.set(`${s} ${key}`, [...(lanes.get(`${s} ${key}`) ?? []), one])
    }
  }
  return [...lanes.values()].flatMap((members) => {
    members.sort((a, b) => a.op - b.op || a.place - b.place)
    return members.flatMap((one, place) => {
      const completedAt = members[place - 1]?.attempts.findLast(({ outcome }) => outcome === 'ok')?.endedAt
      if (one.attempts.length > 0 || completedAt === undefined) return []
      return [{ status: one.status, endedAt: one.endedAt, completedAt }]
    })
  })
}

/** As seen in the end, or by a theme before it was pruned. */
function readEnds(history, answers) {
  const ended = new Map()
  for (const { kind, s, status, ends } of history)
    if (kind === 'ends')
      for (const { event_id: id, updated_at: at } of ends) ended.set(`${s} ${id}`, { status, at })
  for (const { subscriber: s, event_id: id, status, updated_at: at } of answers?.deliveries ?? [])
    ended.set(`${s} ${id}`, { status, at })
  return ended
}

const attemptsOf = ({ deliveries }, s, id) => deliveries.get(`${s} ${id}`)?.attempts ?? []

/** What the database's clock said when, with all its steps. */
function readClock(history) {
  const start = history.find(({ kind }) => kind === 'clock')
  if (start === undefined) return undefined
  const steps = history
    .filter(({ kind, phase, stepMs }) => kind === 'fault' && phase === 'ends' && stepMs !== undefined)
    .map(({ at, stepMs }) => ({ at, stepMs }))
  return {
    /** The first moment at which the clock showed that. */
    toMonotonicUs(ms) {
      let offsetMs = 0
      for (const [place, step] of [{ at: 0, stepMs: 0 }, ...steps].entries()) {
        offsetMs += step.stepMs
        const at = start.at + (ms - start.wallMs - offsetMs) * 1_000
        const until = steps[place]?.at ?? Number.POSITIVE_INFINITY
        if (at >= step.at - closeUs && at <= until) return at
      }
      return Number.NaN
    },
  }
}

function countChangedGates(model) {
  const buriedAt = new Map()
  for (const { s, attempts } of model.deliveries.values()) {
    for (const { outcome, endedAt } of attempts)
      if (outcome === 'bury') buriedAt.set(s, Math.min(endedAt, buriedAt.get(s) ?? endedAt))
  }
  const repairs = [...model.operations.values()].filter(
    ({ type, touches }) => type === 'ok' && ['redrive', 'replay', 'lane retry', 'retry'].includes(touches),
  )
  return model.changes.filter(
    ({ s, options, invokedAt, answeredAt }) =>
      (options?.keyConcurrency !== undefined || options?.key_concurrency !== undefined) &&
      buriedAt.get(s) < invokedAt &&
      repairs.some((one) => one.s === s && one.invokedAt > answeredAt),
  ).length
}

/** Kills of processes that were in the middle of an attempt. */
function countKills({ faults, deliveries }) {
  const kills = faults.filter(({ fault }) => fault === 'kill')
  const attempts = [...deliveries.values()].flatMap((one) => one.attempts)
  return kills.filter(({ pid, from }) =>
    attempts.some(
      (one) => one.pid === pid && one.begunAt < from && (one.endedAt === null || one.endedAt > from),
    ),
  ).length
}

function countRetries(model, isMeant) {
  let count = 0
  for (const { id, attempts } of model.deliveries.values()) {
    const publication = model.publications.get(model.uidById.get(id))
    if (publication !== undefined && isMeant(publication)) count += Math.max(0, attempts.length - 1)
  }
  return count
}

/** From the burial of a head to the next beginning in its lane, where burials block. */
function countBlocked(model) {
  const begins = new Map()
  for (const { s, id, attempts } of model.deliveries.values()) {
    if (s !== 'block') continue
    const { key } = model.publications.get(model.uidById.get(id)) ?? {}
    if (key !== undefined) begins.set(key, [...(begins.get(key) ?? []), ...attempts])
  }
  return [...begins.values()].filter((attempts) => {
    attempts.sort((a, b) => a.begunAt - b.begunAt)
    return attempts.some(
      ({ outcome, endedAt }, place) =>
        outcome === 'bury' && attempts[place + 1]?.begunAt - endedAt > blockedUs,
    )
  }).length
}

function countOverlaps({ faults }) {
  return faults.filter((one) =>
    faults.some(
      (other) => other !== one && other.from < one.from && other.to > one.from && other.fault !== one.fault,
    ),
  ).length
}
