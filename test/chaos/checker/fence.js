/** Settlements: one for each attempt, and only by whoever holds the lease. */
import { wasForgotten } from './attempts.js'
import { isTouched, touchesOf } from './excuses.js'

const replayed = new Set(['replay'])

/** One attempt is told that it has completed a delivery; whoever comes later is told that it was too late. */
export function findCompletedTwice(model) {
  const found = []
  for (const delivery of model.deliveries.values()) {
    const { s, id, settled } = delivery
    // A settlement over HTTP may be repeated at another server, which then tells of it as well.
    const completed = settled.filter(({ settlement, isServed }) => settlement === 'complete' && !isServed)
    const by = new Set(completed.map((one) => one.by))
    if (by.size < 2) continue
    const times = [completed[0].at, completed.at(-1).at]
    if (wasForgotten(model, delivery, [...by], times)) continue
    if (isTouched(model, delivery, replayed, [0, times[1]])) continue
    const text = `${s} event ${id} was completed by ${[...by].join(' and by ')}`
    found.push({ rule: 'fence', s, id, text })
  }
  return found
}

/** Whoever was succeeded, or whose lease an operator took away, is refused. */
export function findUnfenced(model) {
  const found = []
  for (const { s, id, token, verb, byToken, askedAt } of model.settles) {
    if (!byToken || verb === 'start') continue
    const leases = model.leases.get(`${s} ${id}`) ?? []
    const own = leases.find((lease) => lease.token === token)
    if (own === undefined) continue
    const isSucceeded = leases.some((lease) => isNewer(lease, own) && lease.at < askedAt)
    const isReset = touchesOf(model, { s, id }).some(
      (one) =>
        one.touches === 'reset' && one.type === 'ok' && one.invokedAt > own.at && one.answeredAt < askedAt,
    )
    if (!isSucceeded && !isReset) continue
    const why = isSucceeded ? 'another had leased it' : 'it was reset'
    found.push({ rule: 'fence', s, id, text: `${s} event ${id}: ${verb} was accepted after ${why}` })
  }
  return found
}

/** The answer to an older lease may come later than that to a newer one. */
function isNewer(lease, own) {
  if (lease.token === own.token || lease.at < own.at) return false
  return lease.askedAt > own.at || lease.attempt > own.attempt
}
