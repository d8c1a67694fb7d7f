import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'receivers that fail and hang get every lane in order, from dispatchers that are killed and replaced',
  patience,
  async () => {
    const size = { subscribersMax: 3, keys: 16, pauseMs: 300 }
    const { counts, violations } = await runScenario('webhooks', { seed: 7, secs: 6, ...size })
    expect(violations).toEqual([])
    expect(counts.kills).toBeGreaterThanOrEqual(2)
    const vital = ['killsThatHitARequest', 'stops', 'lanesOfSeveralProcesses', 'takenBack']
    for (const what of [...vital, 'failed', 'closed', 'repeats', 'skips', 'deadLetters']) {
      expect(counts[what], what).toBeGreaterThan(0)
    }
  },
)
