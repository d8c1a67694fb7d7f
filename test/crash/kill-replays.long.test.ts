import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'a recovery whose processes are killed in the middle sends each dead letter once more, in order per key',
  patience,
  async () => {
    const size = { events: 1_000, keys: 20, ratePerSecond: 300 }
    const { counts, violations } = await runScenario('kill-replays', { seed: 1, secs: 1, ...size })
    expect(violations).toEqual([])
    expect(counts).toMatchObject({ letters: 1_000, sentAgain: 1_000, lanes: 20, killsInAStep: 2 })
  },
)
