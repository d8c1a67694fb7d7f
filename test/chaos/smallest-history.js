/** The smallest part of a history that still breaks the same rule for the same delivery. Nothing is run again. */
import { judge } from './checker/index.js'

/**
 * @param {{ history: object[], answers: object }} run
 * @param {{ rule: string, s?: string, id?: number }} violation
 * @param {{ untilMs?: number, now?: () => number, judgeBy?: typeof judge }} [options]
 * @returns {object[]} the records that are left
 */
export function smallestHistory(run, violation, options = {}) {
  const { untilMs = Number.POSITIVE_INFINITY, now = () => performance.now(), judgeBy = judge } = options
  const { rule, s, id } = violation
  const isBroken = (groups) =>
    judgeBy(inOrder(groups), run.answers).some((one) => one.rule === rule && one.s === s && one.id === id)
  let groups = groupsOf(run.history)
  if (!isBroken(groups)) return run.history
  let size = Math.ceil(groups.length / 2)
  while (size >= 1 && now() < untilMs) {
    let hasShrunk = false
    for (let from = 0; from < groups.length && now() < untilMs; ) {
      const rest = groups.toSpliced(from, size)
      if (isBroken(rest)) {
        groups = rest
        hasShrunk = true
      } else from += size
    }
    if (size === 1 && !hasShrunk) break
    size = Math.max(1, Math.floor(size / 2))
  }
  return inOrder(groups)
}

/** Records that make sense only together: a call and its answer, all attempts at an event, a fault from begin to end. */
function groupsOf(history) {
  const groups = new Map()
  for (const record of history) {
    const name = nameOf(record)
    if (groups.has(name)) groups.get(name).push(record)
    else groups.set(name, [record])
  }
  return [...groups.values()]
}

function nameOf({ kind, op, id, no, pid, fault, role, at }) {
  if (op !== undefined) return `operation ${op}`
  if (id !== undefined) return `event ${id}`
  if (kind === 'fault') return `fault ${fault} ${pid} ${role}`
  if (kind === 'lease' || kind === 'leased' || kind === 'lease unknown') return `lease ${pid} ${no}`
  return `${kind} ${pid} ${at}`
}

const inOrder = (groups) => groups.flat().sort((a, b) => a.at - b.at)

const linesMax = 40

export function tellHistory(history) {
  const from = history[0]?.at ?? 0
  const lines = history.slice(0, linesMax).map(({ at, ...record }) => {
    const ms = ((at - from) / 1_000).toFixed(1).padStart(10)
    return `  ${ms} ms  ${JSON.stringify(record).slice(0, 240)}`
  })
  const more = history.length - linesMax
  return more > 0 ? [...lines, `  and ${more} records more`] : lines
}
