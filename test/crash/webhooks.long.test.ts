import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'receivers that fail and hang get every lane in order, from dispatchers that are killed and replaced',
  patience,
  async () => {
    const size = { subscribersMax: 3, keys: 16, pauseMs: 300 }
    const blows = ['killsThatHitARequest', 'stops', 'lanesOfSeveralProcesses', 'takenBack']
    const vital = [...blows, 'failed', 'closed', 'repeats', 'skips', 'deadLetters']
    const { counts, violations } = await runScenario('webhooks', { seed: 7, secs: 6, ...size, vital })
    expect(violations).toEqual([])
    expect(counts.kills).toBeGreaterThanOrEqual(2)
  },
)
