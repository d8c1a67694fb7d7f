/** Attempts of one delivery: never two at once while the first one's lease holds, none without a reason, none after the end. */
import { concerned, isDoubtful, isTouched, leaseEndOf, mayBeLate, mayHaveLostLease } from './excuses.js'

/** What makes a delivery that is dead or under way come again; what is completed comes again only by a replay. */
const again = new Set(['redrive', 'replay', 'retry', 'lane retry', 'reset'])
const replayed = new Set(['replay'])
/** What takes a lease away. */
const takes = new Set(['reset', 'cancel', 'bury', 'lane skip', 'lane discard', 'discard'])
const finished = new Set(['ok', 'bury'])

export function findRepeats(model) {
  const found = []
  for (const delivery of model.deliveries.values()) {
    const { s, id, attempts } = delivery
    for (const [place, attempt] of attempts.entries()) {
      const before = attempts[place - 1]
      if (before === undefined) continue
      const times = [before.begunAt, attempt.begunAt]
      const isLost = (before.lostAt ?? Number.POSITIVE_INFINITY) <= attempt.begunAt + 1_000_000
      if (isLost || isTouched(model, delivery, again, times)) continue
      if (before.endedAt === null || before.endedAt > attempt.begunAt) {
        if (!isAlive(model, before, attempt.begunAt) || mayHaveLostLease(model, before, attempt.begunAt))
          continue
        // The hub has counted its failure: it timed out, and its process has not come to say so.
        if (attempt.failures > before.failures && attempt.begunAt - before.begunAt > timeoutUs) continue
        const text = `${s} event ${id} began in ${attempt.pid} while ${before.pid} still had it`
        found.push({ rule: 'overlap', s, id, text })
      } else if (finished.has(before.outcome) && attempt.begunAt < leaseEndOf(model, before)) {
        const pids = [...concerned(model, before), ...concerned(model, attempt)]
        if (isDoubtful(model, pids, ...times)) continue
        const text = `${s} event ${id} was attempted again after it ended with ${before.outcome}`
        found.push({ rule: 'unjustified', s, id, text })
      }
    }
  }
  return found
}

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
    const wasTaken = isTouched(model, { s, id }, takes, [from, at])
    // A hub that is replaced or moved hands back what it has.
    const wasChanged = model.changes.some((one) => one.s === s && one.invokedAt < at && one.answeredAt > from)
    if (wasTaken || wasChanged || isDoubtful(model, [pid], from, at) || wasSlow(model, pid, [from, at]))
      continue
    if (couldNotRenew(model, pid, [from, at])) continue
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
/** The shortest time limit of a handler. */
const timeoutUs = 1_500_000

/** What a process says that has counted the time since it last renewed a lease: no other process has a part in that. */
const ranOut = new Set(['its lease ran out before it could begin', 'its lease could not be renewed'])

/** A process renews all its leases with one statement: if some of them ran out, it was slow to be answered for all. */
const couldNotRenew = ({ losses }, pid, [from, to]) =>
  losses.some((one) => one.pid === pid && ranOut.has(one.why) && one.at >= from && one.at <= to)

/** Whether a settlement of this process took long at that time: then a renewal may have taken as long. */
function wasSlow(model, pid, [from, to]) {
  for (const { attempts, settled } of model.deliveries.values()) {
    for (const { at, by } of settled) {
      if (by !== pid || at < from || at - slowUs > to) continue
      const ended = attempts.findLast((one) => one.pid === pid && one.endedAt !== null && one.endedAt <= at)
      if (ended !== undefined && at - ended.endedAt > slowUs && ended.endedAt < to) return true
    }
  }
  return false
}
const slowUs = 1_000_000

/** Once another process has begun something of a memory queue, the one that had the queue before begins nothing more. */
export function findStaleOwners(model) {
  const begun = [...model.deliveries.values()]
    .filter(({ s }) => s === 'memory')
    .flatMap(({ id, attempts }) => attempts.map(({ pid, begunAt }) => ({ id, pid, begunAt })))
  const moves = model.changes.filter(({ s, options }) => s === 'memory' && options?.storage !== undefined)
  return model.successions.flatMap(({ former, successor }) => {
    const first = Math.min(...begun.filter(({ pid }) => pid === successor).map(({ begunAt }) => begunAt))
    // Moved to the database, or nobody knows where to, the queue is everybody's.
    const last = moves.findLast(({ invokedAt }) => invokedAt < first)
    if (last !== undefined && (last.type !== 'ok' || last.options.storage !== 'memory')) return []
    const movedAt = Math.min(
      ...moves.map(({ invokedAt, answeredAt }) => (answeredAt > first ? invokedAt : Infinity)),
    )
    // A clock that jumps ends the successor's claim, and the former owner may claim the queue again.
    const endedAt = Math.min(movedAt, ...model.jumps.filter(({ to }) => to > first).map(({ from }) => from))
    const since = Math.max(first, claimedUntil(model, { former, first }))
    const late = begun.filter(({ pid, begunAt }) => pid === former && begunAt > since && begunAt < endedAt)
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

/** How long a process has a memory queue that it last claimed when it was frozen. */
const claimUs = 5_000_000

/** A clock that jumps forward ends a claim early: its process, which counts by itself, has the queue for as long as was promised. */
function claimedUntil({ faults, jumps }, { former, first }) {
  const frozen = faults.findLast(
    ({ fault, pid, from }) => fault === 'freeze.owner' && pid === former && from < first,
  )
  if (frozen === undefined) return 0
  const isShortened = jumps.some(({ from, to }) => to > frozen.from - claimUs && from < first)
  return isShortened ? frozen.from + claimUs : 0
}

/** Nothing begins after its completion was acknowledged, unless an operator replays it. */
export function findAfterDone(model) {
  const found = []
  for (const delivery of model.deliveries.values()) {
    const { s, id, attempts, settled } = delivery
    const done = settled.find(({ settlement }) => settlement === 'complete')
    if (done === undefined) continue
    for (const attempt of attempts.filter(({ begunAt }) => begunAt > done.at)) {
      if (isTouched(model, delivery, replayed, [0, attempt.begunAt])) continue
      if (mayBeLate(model, attempt, done.at)) continue
      if (wasForgotten(model, delivery, [done.by], [done.at, attempt.begunAt])) continue
      const text = `${s} event ${id} began in ${attempt.pid} after its completion was acknowledged`
      found.push({ rule: 'after the end', s, id, text })
    }
  }
  return found
}

/**
 * Of a memory queue a crash forgets what was settled since it was last persisted, and an owner that was frozen settles in its
 * own memory what it had begun, which is forgotten as well: that runs again.
 */
export function wasForgotten(model, { s }, pids, [from, to]) {
  return s === 'memory' && isDoubtful(model, pids, from, to)
}
