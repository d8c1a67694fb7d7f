import { randomInt } from 'node:crypto'
import { testAgreement } from './agreeing.ts'

/**
 *   POSTHORN_SIMULATION_RUNS   more runs with the fresh seed: hundreds per minute
 *   POSTHORN_SIMULATION_SEED   a seed that was printed, to see its failure again
 */
const freshRuns = Number(process.env.POSTHORN_SIMULATION_RUNS || 0)
const freshSeed = Number(process.env.POSTHORN_SIMULATION_SEED || randomInt(2 ** 31))
// The same seeds every time: a red build should be the change's fault. Fresh seeds are for chaos/simulation.js.
const fixed = [
  { seed: 1, runs: 12 },
  { seed: 2, runs: 12 },
]

testAgreement(freshRuns > 0 ? [{ seed: freshSeed, runs: freshRuns }] : fixed)
