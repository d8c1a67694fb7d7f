/**
 * Damages a good history in one place, to see whether the checker notices: a checker that excuses too much is worth nothing.
 * Nothing is run again: the damage is done to the records and to the final answers.
 */
import { createRandom } from '../crash/support/random.js'
import { judge } from './checker/index.js'
import { readModel } from './checker/model.js'
import { damages } from './damage/index.js'

const triesMax = 20

/**
 * @param {{ history: object[], answers: object }} run a good one
 * @param {{ seed?: number, times?: number, kinds?: string[] }} [options]
 * @returns {{ kind: string, done: number, noticed: number, missed: string[] }[]} `done`: how often the run had a place for it
 */
export function measureDamage(run, { seed = 1, times = 50, kinds = Object.keys(damages) } = {}) {
  const known = new Set(judge(run.history, run.answers).map(({ text }) => text))
  const material = { ...run, model: readModel(run.history), cache: new Map() }
  return kinds.map((kind) => {
    const random = createRandom(seed)
    const row = { kind, done: 0, noticed: 0, missed: [] }
    for (let n = 0; n < times; n++) {
      const damaged = damageOnce(kind, material, random)
      if (damaged === undefined) continue
      row.done++
      if (isNoticed(damaged, known)) row.noticed++
      else row.missed.push(damaged.what)
    }
    return row
  })
}

function damageOnce(kind, material, random) {
  for (let tries = 0; tries < triesMax; tries++) {
    const damaged = damages[kind](material, random)
    if (damaged !== undefined) return damaged
  }
  return undefined
}

/** By a violation that names one of the events concerned; of a counter, by any new one. */
function isNoticed({ history, answers, ids }, known) {
  const found = judge(history, answers).filter(({ text }) => !known.has(text))
  return ids === undefined ? found.length > 0 : found.some(({ id }) => ids.includes(id))
}

export function tellDamage(rows) {
  return rows.map(({ kind, done, noticed }) => {
    const share = done === 0 ? 'no place for it' : `${Math.round((100 * noticed) / done)} %`
    return `  ${kind.padEnd(44)} ${String(noticed).padStart(3)} of ${String(done).padStart(3)}  ${share}`
  })
}
