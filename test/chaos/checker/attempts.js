/** Attempts of one delivery: never two at once while the first one's lease holds, none without a reason, none after the end. */
import { concerned, isDoubtful, leaseEndOf, touchesOf } from './model.js'

const again = new Set(['redrive', 'replay', 'retry', 'lane retry', 'reset'])
const unfinished = new Set([
  null,
  'throw',
  'snooze',
  'timeout',
  'released',
  'crash',
  'lease lost',
  'hang',
  'reset',
  'gone',
])

export function findRepeats(model) {
  const found = []
  for (const delivery of model.deliveries.values()) {
    const { s, id, attempts } = delivery
    for (const [place, attempt] of attempts.entries()) {
      const before = attempts[place - 1]
      if (before === undefined) continue
      const pids = concerned(model, before)
      const touched = touchesOf(model, delivery).some(
        (one) => again.has(one.touches) && one.invokedAt < attempt.begunAt && lasted(one) > before.begunAt,
      )
      const isLost = (before.lostAt ?? Number.POSITIVE_INFINITY) <= attempt.begunAt + 1_000_000
      if (touched || isLost || isDoubtful(model, [...pids, attempt.pid], before.begunAt, attempt.begunAt))
        continue
      if (before.endedAt === null || before.endedAt > attempt.begunAt) {
        if (isAlive(model, before, attempt.begunAt) && attempt.begunAt < leaseEndOf(model, before))
          found.push({
            rule: 'overlap',
            s,
            id,
            text: `${s} event ${id} began in ${attempt.pid} while ${before.pid} still had it`,
          })
      } else if (!unfinished.has(before.outcome) && attempt.begunAt < leaseEndOf(model, before)) {
        found.push({
          rule: 'unjustified',
          s,
          id,
          text: `${s} event ${id} was attempted again after it ended with ${before.outcome}`,
        })
      }
    }
  }
  return found
}

/** A job that was started goes on after its answer, for as long as the run. */
const lasted = ({ name, answeredAt }) =>
  name === 'recover' || name === 'replay' ? Number.POSITIVE_INFINITY : answeredAt + 500_000

/** A pull worker that abandons what it has leased does not begin it; whoever has begun and is not dead holds it. */
function isAlive({ deaths }, { pid }, at) {
  return !deaths.some((death) => death.pid === pid && death.at < at + 1_000_000)
}

/** A lease is lost only when its process or the database was too slow to renew it, or an operator took it away. */
export function findEarlyReclaims(model) {
  const found = []
  for (const { s, id, pid, at, why, since } of model.losses) {
    if (why !== 'its lease was lost') continue
    const from = since - leaseUs
    const wasTaken = touchesOf(model, { s, id }).some((one) => one.invokedAt < at && one.answeredAt > from)
    // A hub that is replaced or moved hands back what it has.
    const wasChanged = model.changes.some((one) => one.s === s && one.invokedAt < at && one.answeredAt > from)
    if (wasTaken || wasChanged || isDoubtful(model, [pid], from, at)) continue
    found.push({
      rule: 'reclaim',
      s,
      id,
      text: `${s} event ${id} was taken from ${pid} while its lease held (${why})`,
    })
  }
  return found
}
const leaseUs = 3_000_000

/** Once another process has begun something of a memory queue, the one that had the queue before begins nothing more. */
export function findStaleOwners(model) {
  const begun = [...model.deliveries.values()]
    .filter(({ s }) => s === 'memory')
    .flatMap(({ id, attempts }) => attempts.map(({ pid, begunAt }) => ({ id, pid, begunAt })))
  const moves = model.changes.filter(({ s }) => s === 'memory')
  return model.successions.flatMap(({ former, successor }) => {
    const first = Math.min(...begun.filter(({ pid }) => pid === successor).map(({ begunAt }) => begunAt))
    // Moved to the database, or nobody knows where to, the queue is everybody's.
    const last = moves.findLast(({ invokedAt }) => invokedAt < first)
    if (last !== undefined && (last.type !== 'ok' || last.options.storage !== 'memory')) return []
    const movedAt = Math.min(
      ...moves.map(({ invokedAt, answeredAt }) => (answeredAt > first ? invokedAt : Infinity)),
    )
    const late = begun.filter(({ pid, begunAt }) => pid === former && begunAt > first && begunAt < movedAt)
    // One may have been stopped after it was judged and before it could say that it began.
    if (late.length < 2) return []
    const [{ id }] = late
    return [
      {
        rule: 'stale owner',
        s: 'memory',
        id,
        text: `${former} began ${late.length} attempts after ${successor} had taken its memory queue, such as event ${id}`,
      },
    ]
  })
}

/** Nothing begins after its end was acknowledged, unless an operator sends it again. */
export function findAfterDone(model) {
  const found = []
  for (const delivery of model.deliveries.values()) {
    const { s, id, attempts, settled } = delivery
    const done = settled.find(({ settlement }) => settlement === 'complete')
    if (done === undefined) continue
    for (const attempt of attempts.filter(({ begunAt }) => begunAt > done.at)) {
      const isSentAgain = touchesOf(model, delivery).some(
        (one) => again.has(one.touches) && one.invokedAt < attempt.begunAt,
      )
      if (!isSentAgain && !wasForgotten(model, delivery, [done.by], [done.at, attempt.begunAt]))
        found.push({
          rule: 'after the end',
          s,
          id,
          text: `${s} event ${id} began in ${attempt.pid} after its completion was acknowledged`,
        })
    }
  }
  return found
}

/**
 * Of a memory queue a crash forgets what was settled since it was last persisted, and an owner that was frozen settles in its
 * own memory what it had begun, which is forgotten as well: that runs again.
 */
function wasForgotten(model, { s }, pids, [from, to]) {
  return s === 'memory' && isDoubtful(model, pids, from, to)
}

/** One attempt is told that it has completed a delivery; whoever comes later is told that it was too late. */
export function findCompletedTwice(model) {
  const found = []
  for (const delivery of model.deliveries.values()) {
    const { s, id, settled } = delivery
    const completed = settled.filter(({ settlement }) => settlement === 'complete')
    const by = new Set(completed.map((one) => one.by))
    if (by.size < 2 || wasForgotten(model, delivery, [...by], [completed[0].at, completed.at(-1).at]))
      continue
    if (touchesOf(model, delivery).some(({ touches }) => again.has(touches))) continue
    const text = `${s} event ${id} was completed by ${[...by].join(' and by ')}`
    found.push({ rule: 'fence', s, id, text })
  }
  return found
}

/** Whoever was succeeded is refused. */
export function findUnfenced(model) {
  const found = []
  for (const { s, id, token, verb, byToken, askedAt } of model.settles) {
    if (!byToken) continue
    const newer = (model.leases.get(`${s} ${id}`) ?? []).filter(
      (lease) => lease.token !== token && lease.at < askedAt,
    )
    const own = (model.leases.get(`${s} ${id}`) ?? []).find((lease) => lease.token === token)
    const isSucceeded = newer.some((lease) => own !== undefined && lease.at > own.at)
    if (isSucceeded && verb !== 'start')
      found.push({
        rule: 'fence',
        s,
        id,
        text: `${s} event ${id}: ${verb} was accepted after another had leased it`,
      })
  }
  return found
}

const failed = new Set(['throw', 'timeout', 'hang', 'reset', 'lease lost'])
const failuresMax = 4

/** As many failures as are allowed, and no burial before. */
export function findOutOfBounds(model, answers) {
  const found = []
  const finals = new Map(answers.deliveries.map((one) => [`${one.subscriber} ${one.event_id}`, one]))
  for (const delivery of model.deliveries.values()) {
    const { s, id, attempts } = delivery
    if (attempts.length === 0 || s === 'work' || touchesOf(model, delivery).length > 0) continue
    const pids = attempts.flatMap((attempt) => concerned(model, attempt))
    if (isDoubtful(model, pids, attempts[0].begunAt - 1_000_000, attempts.at(-1).begunAt + 5_000_000))
      continue
    const failures = attempts.filter(({ outcome }) => failed.has(outcome)).length
    const own = model.publications.get(model.uidById.get(id))?.maxRetries
    const [least, most] = [
      Math.min(own ?? failuresMax, failuresMax),
      Math.max(own ?? failuresMax, failuresMax),
    ]
    if (failures > most)
      found.push({
        rule: 'bound',
        s,
        id,
        text: `${s} event ${id} failed ${failures} times, of ${most} at most`,
      })
    const isBuriedByPlan = attempts.some(({ outcome }) => outcome === 'bury')
    const isOpen = attempts.some(({ outcome }) => outcome === null || outcome === 'crash')
    if (finals.get(delivery.name)?.status === 'dlq' && !isBuriedByPlan && !isOpen && failures < least) {
      found.push({
        rule: 'bound',
        s,
        id,
        text: `${s} event ${id} was buried after ${failures} failures, of ${least} at least`,
      })
    }
  }
  return found
}

/** An effect that is written with its settlement is there once for each completed delivery, and else not at all. */
export function findWrongEffects(model, answers) {
  const finals = new Map(
    answers.deliveries.filter(({ subscriber }) => subscriber === 'ledger').map((one) => [one.event_id, one]),
  )
  const rows = new Map(answers.ledger.map(({ id, rows }) => [id, rows]))
  const found = []
  for (const id of new Set([...finals.keys(), ...rows.keys()])) {
    const delivery = { s: 'ledger', id }
    if (
      touchesOf(model, delivery).some(
        ({ touches }) =>
          touches === 'replay' || touches === 'redrive' || touches === 'retry' || touches === 'lane retry',
      )
    )
      continue
    const count = rows.get(id) ?? 0
    const status = finals.get(id)?.status
    const expected = status === undefined ? undefined : status === 'delivered' ? 1 : 0
    if (count > 1 || (expected !== undefined && count !== expected)) {
      found.push({
        rule: 'effect',
        s: 'ledger',
        id,
        text: `ledger event ${id} is ${status ?? 'gone'} and has ${count} effects`,
      })
    }
  }
  return found
}
