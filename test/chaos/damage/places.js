/** Places in a run where damage can be done, and records as the driver's processes would have written them. */
import { remote } from '../topology.js'

/** Made once per run. */
export function cached({ cache }, name, make) {
  if (!cache.has(name)) cache.set(name, make())
  return cache.get(name)
}

export const deliveriesOf = (material) =>
  cached(material, 'deliveries', () =>
    [...material.model.deliveries.values()].filter(({ attempts }) => attempts.length > 0),
  )

export const completedOf = (material) =>
  cached(material, 'completed', () =>
    deliveriesOf(material).filter(({ settled }) => settled.some((one) => one.settlement === 'complete')),
  )

export const finalsOf = (material) =>
  cached(
    material,
    'finals',
    () => new Map(material.answers.deliveries.map((one) => [`${one.subscriber} ${one.event_id}`, one])),
  )

export const publicationOf = ({ model }, id) => model.publications.get(model.uidById.get(id))

export const isOf = (record, { s, id }) => record.id === id && (s === undefined || record.s === s)

/** Without all that workers wrote of these deliveries. `s` undefined: of every delivery of the event. */
export function without(history, delivery) {
  return history
    .filter((record) => record.op !== undefined || !isOf(record, delivery))
    .map((record) =>
      record.kind === 'leased' && (delivery.s === undefined || record.s === delivery.s)
        ? { ...record, events: record.events.filter(({ id }) => id !== delivery.id) }
        : record,
    )
}

export const sorted = (history, added) => [...history, ...added].sort((a, b) => a.at - b.at)

/** A process of the same kind that lives at that time, another one if there is one. */
export function pidFor({ model }, attempt, at) {
  const role = model.roles.get(attempt.pid)?.replace(/[\d.].*$/, '')
  const isAlive = (pid) => !model.deaths.some((death) => death.pid === pid && death.at < at)
  const alike = [...model.roles].filter(([pid, own]) => own.startsWith(role) && isAlive(pid))
  return (alike.find(([pid]) => pid !== attempt.pid) ?? alike[0] ?? [attempt.pid])[0]
}

let added = 0

/** An attempt more of a delivery, from its lease to the answer to its settlement. */
export function attemptOf(material, { s, id, attempts }, { from, to, outcome }) {
  const [like] = attempts
  const pid = pidFor(material, like, from)
  const no = `added ${++added}`
  const what = { pid, no, s, u: like.u, id, ...(like.token && { token: no }) }
  const records = [
    { at: from, kind: 'begin', key: like.key, attempt: attempts.length + 1, ...what },
    { at: to, kind: 'end', outcome, ...what },
  ]
  if (like.token !== undefined) {
    const verb = { ok: 'complete', throw: 'fail' }[outcome]
    const events = [{ id, u: like.u, token: no }]
    records.push(
      { at: from - 20, kind: 'lease', pid, no, s },
      { at: from - 10, kind: 'leased', pid, no, s, leaseSecs: 2, events },
      { at: to + 1, kind: 'settle', ...what, verb, byToken: true },
      { at: to + 10, kind: 'settle ok', ...what, verb, status: 200 },
    )
  } else if (!remote.includes(s)) {
    const settlement = { ok: 'complete', throw: 'retry' }[outcome]
    records.push({ at: to + 10, kind: 'settled', pid, s, id, settlement })
  }
  return records
}
