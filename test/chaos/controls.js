/**
 * Where the driver finds each planted bug: what it draws, which faults and victims it needs, which rules the bug breaks, and
 * within how many runs of how many seconds. A bug that breaks none of them has become invisible, and so would the next one
 * of its kind.
 */
import { runChaos } from './main.js'

/** @type {Record<string, { only: string[], faults: string, victims?: string[], secs: number, runs: number, rules: string[] }>} */
export const controls = {
  'unfenced-settle': {
    ...{ only: ['lanes that take long'], faults: 'freeze.long', victims: ['worker'], secs: 20, runs: 8 },
    rules: ['fence'],
  },
  'lease-behind-head': { only: ['lanes'], faults: 'none', secs: 5, runs: 3, rules: ['order'] },
  'admit-by-cursor': { only: ['publish', 'commit late'], faults: 'none', secs: 8, runs: 3, rules: ['live'] },
  'unguarded-reclaim': {
    ...{ only: ['publish'], faults: 'none', secs: 5, runs: 3 },
    rules: ['overlap', 'unjustified', 'reclaim', 'order'],
  },
  'lanes-fall-asleep': {
    ...{ only: ['lanes cancelled', 'lanes that expire'], faults: 'none', secs: 15, runs: 3 },
    rules: ['asleep'],
  },
  'batch-loses-order': { only: ['a batch of one key'], faults: 'none', secs: 5, runs: 3, rules: ['order'] },
  'redrive-strands': { only: ['gate'], faults: 'none', secs: 20, runs: 3, rules: ['asleep', 'stranded'] },
  'frozen-owner': {
    ...{ only: ['publish.memory'], faults: 'freeze.owner', secs: 5, runs: 3 },
    rules: ['stale owner'],
  },
  'clock-steps-back': {
    only: ['queues with a rate'],
    faults: 'clock.back',
    secs: 10,
    runs: 3,
    rules: ['live'],
  },
  'unreadable-key': { only: ['payloads'], faults: 'none', secs: 3, runs: 3, rules: ['server error'] },
}

/** What stands still for so long is stuck by the bug: nothing that is well is waited for here. */
const standstillMs = 8_000

/** Runs until the driver finds the bug, as often as it may. */
export async function findPlanted(bug, { seed = 1, log = () => undefined, ...options }) {
  const { runs, rules, ...aim } = controls[bug]
  for (let run = 0; run < runs; run++) {
    const given = { ...options, ...aim, bug, seed: seed + run, stopAt: rules, standstillMs }
    const { violations, secs } = await runChaos(given)
    const found = violations.filter(({ rule }) => rules.includes(rule))
    const what = found.length === 0 ? 'nothing' : `${found.length} times ${found[0].text}`
    log(`${bug}, seed ${seed + run}: ${what} in ${Math.round(secs)} s`)
    if (found.length > 0) return { rule: found[0].rule, runs: run + 1 }
  }
  return undefined
}
