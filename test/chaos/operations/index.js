import { changing } from './changing.js'
import { deploying } from './deploying.js'
import { listing } from './listing.js'
import { polling } from './polling.js'
import { publishing } from './publishing.js'
import { queueing } from './queueing.js'
import { repairing } from './repairing.js'
import { repairingByLibrary } from './repairing-by-library.js'
import { repeating } from './repeating.js'
import { speaking } from './speaking.js'

/**
 * All that the driver does: `weight` says how often against the others, `place` by which kind of process,
 * `run(world, random)` does it and records it. `isRefused`: that is what must come of it.
 * @type {Record<string, { weight: number, place: string, isRefused?: boolean, run: (world: object, random: object) => Promise<unknown> }>}
 */
export const operations = {
  ...publishing,
  ...repeating,
  ...speaking,
  ...polling,
  ...repairing,
  ...repairingByLibrary,
  ...queueing,
  ...changing,
  ...deploying,
  ...listing,
}

/** What pull workers do without being told. */
export const pullVerbs = [
  ...['pull.lease', 'pull.leasePost', 'pull.head', 'pull.hangUp', 'pull.start', 'pull.heartbeat'],
  ...['pull.release', 'pull.complete', 'pull.fail', 'pull.settle'],
]

/** @param {string[]} names that may be drawn */
export function drawOperation(random, names) {
  const total = names.reduce((sum, name) => sum + operations[name].weight, 0)
  let dice = random.next() * total
  for (const name of names) {
    dice -= operations[name].weight
    if (dice < 0) return operations[name]
  }
  return operations[names[0]]
}
