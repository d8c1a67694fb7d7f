import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'an API that is killed stores every acknowledged event once, and loses nothing that its clients send again',
  patience,
  async () => {
    const { counts, violations } = await runScenario('kill-api', { seed: 5, secs: 5 })
    expect(violations).toEqual([])
    for (const what of ['killsThatHitAPublish', 'unknownFates', 'replays', 'abandoned']) {
      expect(counts[what], what).toBeGreaterThan(0)
    }
  },
)
