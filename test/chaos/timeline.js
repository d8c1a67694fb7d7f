/** All that is known of one delivery: its publish, its attempts, what was done to it, and what was done to its processes. */
import { touchesOf } from './checker/excuses.js'
import { readModel } from './checker/model.js'

const linesMax = 60

export function timelineOf(history, { s, id }) {
  const model = readModel(history)
  const u = model.uidById.get(id)
  const publication = model.publications.get(u)
  const operations = new Set([...touchesOf(model, { s, id }).map(({ op }) => op), publication?.op])
  const pids = new Set(
    history.filter((record) => record.id === id && (s === undefined || record.s === s)).map(({ pid }) => pid),
  )
  const own = history.filter(
    (record) =>
      (record.id === id && (s === undefined || record.s === undefined || record.s === s)) ||
      (operations.has(record.op) && (record.kind === 'invoke' || record.kind === 'answer')) ||
      (record.kind === 'invoke' && record.options !== undefined && record.s === s) ||
      (record.kind === 'fault' && (record.pid === undefined || pids.has(record.pid))),
  )
  const from = own[0]?.at ?? 0
  const key =
    publication === undefined
      ? ''
      : ` key ${publication.key ?? 'none'}, concurrency key ${publication.ckey ?? 'none'}`
  const lines = own
    .slice(0, linesMax)
    .map((record) => `  ${((record.at - from) / 1_000).toFixed(1).padStart(10)} ms  ${tell(record, u)}`)
  return [`event ${id} (number ${u})${key}${s === undefined ? '' : ` in ${s}`}:`, ...lines]
}

function tell({ at, kind, pid, u, id, s, no, op, name, events, answers, ids, ...rest }, uid) {
  const event = events?.find((one) => one.u === uid)
  const size = events === undefined ? '' : ` of ${events.length}`
  const more = JSON.stringify({ ...rest, ...(event && { event }) })
  return `${kind} ${name ?? ''}${size} ${pid} ${more === '{}' ? '' : more}`.slice(0, 240)
}
