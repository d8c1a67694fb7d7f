/** As many failures as are allowed and no burial before; each effect once. */
import {
  concerned,
  concernedUnseen,
  isDoubtful,
  isTouched,
  mayHaveBeenLeased,
  mayHaveLostLease,
  touchesOf,
} from './excuses.js'

const failed = new Set(['throw', 'timeout', 'hang', 'lease lost'])
/** What gives a delivery a fresh budget. */
const renewed = new Set(['redrive', 'replay', 'retry', 'lane retry'])
const buries = new Set(['bury', 'lane skip'])
const always = [0, Number.POSITIVE_INFINITY]
const failuresMax = 4
const secondUs = 1_000_000

export function findOutOfBounds(model, answers) {
  const found = []
  const finals = new Map(answers.deliveries.map((one) => [`${one.subscriber} ${one.event_id}`, one]))
  for (const delivery of model.deliveries.values()) {
    const { s, id, attempts, name } = delivery
    const publication = model.publications.get(model.uidById.get(id))
    if (attempts.length === 0 || publication === undefined) continue
    const own = publication.maxRetries ?? failuresMax
    const [least, most] = [Math.min(own, failuresMax), Math.max(own, failuresMax)]
    const failures = attempts.filter((one) => failed.has(one.outcome))
    if (isBeyond(model, delivery, { failures, most })) {
      const text = `${s} event ${id} failed ${failures.length} times, of ${most} at most`
      found.push({ rule: 'failures', s, id, text })
    }
    if (isTouched(model, delivery, buries, always)) continue
    if (finals.get(name)?.status !== 'dlq' || attempts.some(({ outcome }) => outcome === 'bury')) continue
    if (possibleFailures(model, publication, delivery) < least) {
      const text = `${s} event ${id} was buried after ${failures.length} failures, of ${least} at least`
      found.push({ rule: 'failures', s, id, text })
    }
  }
  return found
}

/** So many in a row that nothing between them gave it a fresh budget. */
function isBeyond(model, delivery, { failures, most }) {
  // A failure that nobody acknowledged may not have been counted.
  const sure = failures.filter(
    (one) => one.isSettled || !isDoubtful(model, concerned(model, one), one.begunAt, one.endedAt + secondUs),
  )
  return sure.some((first, place) => {
    const last = sure[place + most]
    return last !== undefined && !isTouched(model, delivery, renewed, [first.begunAt, last.begunAt])
  })
}

/** An attempt that ended well or was put off fails if nobody heard of it; a lease may fail that nobody began. */
function possibleFailures(model, publication, delivery) {
  if (mayHaveBeenLeased(model, publication, delivery)) return Number.POSITIVE_INFINITY
  const { attempts } = delivery
  const isHarmed = isDoubtful(
    model,
    attempts.flatMap((one) => concernedUnseen(model, one)),
    attempts[0].begunAt,
    attempts.at(-1).begunAt + 5 * secondUs,
  )
  const isFailure = (outcome) => outcome === null || outcome === 'crash' || failed.has(outcome)
  const isCounted = (one) =>
    isHarmed || isFailure(one.outcome) || mayHaveLostLease(model, one, one.endedAt + secondUs)
  // A process that dies as it begins has no time to say so.
  return attempts.filter(isCounted).length + (isHarmed ? 1 : 0)
}

/** An effect that is written with its settlement is there once for each completion, and else not at all. */
export function findWrongEffects(model, answers) {
  const finals = new Map(
    answers.deliveries.filter(({ subscriber }) => subscriber === 'ledger').map((one) => [one.event_id, one]),
  )
  const rows = new Map(answers.ledger.map(({ id, rows }) => [id, rows]))
  const acked = [...model.deliveries.values()].filter(
    ({ s, settled }) => s === 'ledger' && settled.length > 0,
  )
  const found = []
  for (const id of new Set([...finals.keys(), ...rows.keys(), ...acked.map((one) => one.id)])) {
    const count = rows.get(id) ?? 0
    const status = finals.get(id)?.status
    const [least, most] = expectedEffects(model, id, status)
    if (count >= least && count <= most) continue
    const text = `ledger event ${id} is ${status ?? 'gone'} and has ${count} effects, expected ${least} to ${most}`
    found.push({ rule: 'effect', s: 'ledger', id, text })
  }
  return found
}

/** What is replayed may be completed more than once: between those that were told so and those that ended well. */
function expectedEffects(model, id, status) {
  const { attempts, settled } = model.deliveries.get(`ledger ${id}`) ?? { attempts: [], settled: [] }
  const isReplayed = touchesOf(model, { s: 'ledger', id }).some(({ touches }) => touches === 'replay')
  const told = settled.filter(({ settlement }) => settlement === 'complete').length
  if (isReplayed) return [told, attempts.filter(({ outcome }) => outcome === 'ok').length]
  if (status === undefined) return [Math.min(told, 1), 1]
  return status === 'delivered' ? [1, 1] : [0, 0]
}
