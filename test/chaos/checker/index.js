/** Judges a history and the final answers of the API. It knows nothing of how the hub works inside. */
import { findAfterDone, findEarlyReclaims, findRepeats, findStaleOwners } from './attempts.js'
import { findOutOfBounds, findWrongEffects } from './bounds.js'
import { findWrongCounters } from './counters.js'
import { findCompletedTwice, findUnfenced } from './fence.js'
import { findNumberedTwice } from './lane-numbers.js'
import { findWrongLists } from './lists.js'
import { findDoubled, findLost, findUnexpected } from './loss.js'
import { readModel } from './model.js'
import { findDisorder } from './order.js'
import { findLateRecoveries, findLateStarts } from './recovery.js'

/**
 * @typedef {{ rule: string, text: string, s?: string, id?: number }} Violation
 * @returns {Violation[]}
 */
export function judge(history, answers) {
  const model = readModel(history)
  return [
    ...findLost(model, answers),
    ...findUnexpected(model, answers),
    ...findDoubled(model, answers),
    ...findRepeats(model),
    ...findEarlyReclaims(model),
    ...findStaleOwners(model),
    ...findAfterDone(model),
    ...findUnfenced(model),
    ...findCompletedTwice(model),
    ...findDisorder(model),
    ...findNumberedTwice(model),
    ...findOutOfBounds(model, answers),
    ...findWrongEffects(model, answers),
    ...findWrongCounters(model, answers),
    ...findWrongLists(model, answers),
    ...findLateRecoveries(model),
    ...findLateStarts(model),
    ...findBrokenProcesses(model),
  ]
}

/** No process ends but by our hand, and no call is answered 500. */
function findBrokenProcesses(model) {
  const errors = model.serverErrors.map(({ path, json }) => ({
    rule: 'server error',
    text: `${path} was answered 500: ${JSON.stringify(json)}`,
  }))
  const deaths = model.deaths
    .filter(({ code, signal }) => code !== 0 && signal !== 'SIGKILL')
    .map(({ role, pid, code, signal, complaint }) => ({
      rule: 'died',
      text: `${role} (${pid}) ended with ${code ?? signal}: ${complaint ?? ''}`,
    }))
  return [...errors, ...deaths]
}
