import { randomInt } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Profile } from './commands.ts'
import { describeFinding, explore } from './explore.ts'
import { openStage, type Stage } from './stage.ts'

/**
 * Random commands against the real database, compared with a model after every one.
 *
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
const explorations = freshRuns > 0 ? [{ seed: freshSeed, runs: freshRuns }] : fixed

const profiles: [profile: Profile, sentence: string][] = [
  ['alone', 'whatever happens to deliveries, the engine and the model agree'],
  ['overlapping', 'they agree as well while publishers keep transactions open'],
]

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage.close())

describe.each(profiles)('%s', (profile, sentence) => {
  test.each(explorations)(
    `${sentence} (seed $seed, $runs runs)`,
    { timeout: 120_000 + freshRuns * 2_000 },
    async ({ seed, runs }) => {
      const finding = await explore(stage, { seed, runs, profile, shortenMsMax: 60_000 })
      expect(finding && describeFinding(finding)).toBeUndefined()
    },
  )
})
