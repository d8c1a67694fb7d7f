import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Profile } from './commands.ts'
import { describeFinding, type Exploration, explore } from './explore.ts'
import { openStage, type Stage } from './stage.ts'

const profiles: [profile: Profile, sentence: string][] = [
  ['alone', 'whatever happens to deliveries, the engine and the model agree'],
  ['overlapping', 'they agree as well while publishers keep transactions open'],
]

/** Random commands against the real database, compared with a model after every one. */
export function testAgreement(explorations: readonly Pick<Exploration, 'seed' | 'runs'>[]): void {
  let stage: Stage
  beforeAll(async () => {
    stage = await openStage()
  })
  afterAll(() => stage.close())
  const runsMax = Math.max(...explorations.map(({ runs }) => runs))

  describe.each(profiles)('%s', (profile, sentence) => {
    test.each(explorations)(
      `${sentence} (seed $seed, $runs runs)`,
      { timeout: 240_000 + runsMax * 2_000 },
      async ({ seed, runs }) => {
        const finding = await explore(stage, { seed, runs, profile, shortenMsMax: 60_000 })
        expect(finding && describeFinding(finding)).toBeUndefined()
      },
    )
  })
}
